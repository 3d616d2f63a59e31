"""Monitoring of loads: their history, service levels, metrics, alerts, dashboards, traces and lineage."""
