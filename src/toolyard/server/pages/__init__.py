"""The pages people see. Plain HTML made here, no scripts, and whatever comes from outside is escaped."""
