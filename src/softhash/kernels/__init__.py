"""Compiled loops: plain arrays in and out, no validation. Each has a slow twin in tests/naive.py."""
