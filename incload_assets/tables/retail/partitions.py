"""The partitions of the sample tables: days since the shop opened, hours and days since its platform is there."""

import dagster as dg

from incload_assets.shop import founding_date, opening_date, platform_date

# With the open window as its last partition, files are loaded as they arrive and not only when the window is over.
daily = dg.DailyPartitionsDefinition(start_date=opening_date().isoformat(), end_offset=1)
"""Since the sample shop opened, by its own clock."""

real_days = dg.DailyPartitionsDefinition(start_date=founding_date().isoformat(), end_offset=1)
"""Since the sample shop was set up, by the real clock, which is the one that its database and its Kafka go by."""

daily_platform = dg.DailyPartitionsDefinition(start_date=platform_date().isoformat(), end_offset=1)
hourly = dg.HourlyPartitionsDefinition(start_date=f"{platform_date()}-00:00", end_offset=1)
hourly_when_over = dg.HourlyPartitionsDefinition(start_date=f"{platform_date()}-00:00")
