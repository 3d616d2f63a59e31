"""The telemetry that is sent while loads are collected: OpenTelemetry traces and OpenLineage events."""
