"""The parts that commands share: the terminal, the project of the current folder, and loads as runs of Dagster."""
