"""Measurements: commands that write CSV files, and pictures drawn from those files alone."""
