"""The addresses of the dashboards' pages."""

from urllib.parse import quote


def table_path(name: str) -> str:
    """The path of a table's page.

    Example:
        >>> table_path("shop/orders")
        '/table/shop/orders'
    """
    return f"/table/{quote(name)}"


def trace_path(name: str) -> str:
    """The path of the page with the trace of a table's row; its query is the row's key."""
    return f"/trace/{quote(name)}"


def load_path(run_id: str) -> str:
    """The path of a run's page."""
    return f"/load/{quote(run_id, safe='')}"


def address_of(name: str, served_at: str) -> str:
    """The address of a table's page.

    Args:
        name: The table's name.
        served_at: The address of ``incload dashboard``.
    """
    return f"{served_at.rstrip('/')}{table_path(name)}"
