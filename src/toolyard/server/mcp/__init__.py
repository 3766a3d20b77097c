"""MCP, every revision: `transports/` bring messages in, one dispatcher finds their method in `methods/`, and
`protocol/` has what both speak of (peers, eras, sessions). `assembly.py` puts it together; calls go through the intake.
"""
