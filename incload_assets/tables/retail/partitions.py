"""The partitions of the retail tables: one a day since the sample shop opened."""

import dagster as dg

from incload_assets.shop import opening_date

# With the open day as its last partition, files are loaded as they arrive and not only when the day is over.
daily = dg.DailyPartitionsDefinition(start_date=opening_date().isoformat(), end_offset=1)
