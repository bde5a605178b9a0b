"""Every method on one model over a grid of budgets: measured into a CSV file, shown as one page."""
