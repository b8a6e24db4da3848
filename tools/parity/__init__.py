"""The independent check of the conversation cache: wire format, tokens, bookkeeping and scenarios,
written from the specification and sharing no code with the engine. Python 3 and its standard library.
"""
