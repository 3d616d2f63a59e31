"""Files in a local folder or on S3: JSON, CSV, Parquet."""
