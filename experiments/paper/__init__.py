"""The experiments of Spring & Shrivastava (2017)."""
