"""Who reads memory, and from where: the process, the system, and the recorder between barriers.

Nothing here imports numpy or a runtime: the harness reads another process, and must not share its libraries.
"""
