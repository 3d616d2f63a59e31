"""The drill: failure modes that are injected, noticed by their alerts and recovered by their runbooks."""
