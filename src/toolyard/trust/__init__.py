"""Who is calling, what they may do, and what a call needs before it may run."""
