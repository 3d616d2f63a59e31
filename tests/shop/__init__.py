"""Tests of the sample shop."""
