"""What people and machines outside see of the loads: their history, service levels, metrics, traces and lineage."""
