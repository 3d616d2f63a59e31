"""The outputs for Prometheus, Alertmanager and Grafana: metrics, alert rules, routes and dashboards."""
