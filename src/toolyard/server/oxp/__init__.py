"""The handlers of OXP 1.0, OTC 1.0 and the OTC draft: list tools, call a tool, ask for health.

What is said in which words is the business of `wires/oxp`; calls go through the intake.
"""
