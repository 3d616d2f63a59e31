"""Files in local folders or on S3: JSON, CSV and Parquet."""
