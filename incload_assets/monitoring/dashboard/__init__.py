"""The dashboards as a page of our own, for people without Grafana."""
