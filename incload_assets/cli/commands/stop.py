"""``incload stop``: end the servers that were started here on demand."""

from incload_assets.cli.support import screen
from incload_assets.cli.support.folder import enter_project
from incload_assets.platform.samples import database as sample_database
from incload_assets.platform.samples import topics as sample_kafka
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.runs.warm_servers import stop_warm_servers


def stop() -> None:
    """End the servers that were started here: Spark, the sample shop's, and warm runs.

    The sample shop has PostgreSQL and Kafka; warm runs are the processes that runs are forked from. All end even if a
    load uses them; that load is tried again, and starts what it needs. `incload dev` goes on.

    - **Writes:** nothing; all data stays.
    - **Spark:** ended, if it was started on this machine.
    - **Dagster's instance:** not used.

    Example: `incload stop`
    """
    enter_project()
    settings = Settings()
    servers = {
        "Spark": connect_server.stop,
        "PostgreSQL": sample_database.stop,
        "Kafka": sample_kafka.stop,
        "warm runs": stop_warm_servers,
    }
    ended = [name for name, end in servers.items() if end(settings)]
    screen.say(f"Ended: {', '.join(ended)}." if ended else "No server was running.")
