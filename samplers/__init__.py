"""Who reads memory, and from where: the process, the system, the recorder between barriers, and that of any program.

Nothing here imports numpy or a runtime: the harness reads another process, and must not share its libraries.
"""
