"""The components of buffers of the mainline driver rocket, by what submits do with them.

Mesa makes a buffer for each thing, and the request of one does not tell what it is for.
"""

from __future__ import annotations

from reusebench.accounting.ledger import Ledger

__all__ = ["BIAS_REGISTER", "ROCKET", "WEIGHT_REGISTER", "rocket_components"]

#: Buffer.source of this driver.
ROCKET = "rocket"

#: Register with the address of the weights (CNA_DCOMP_ADDR0, as Rockchip's and Mesa's register
#: commands show).
WEIGHT_REGISTER = "0x1110"

#: Register with the address of the biases, in Mesa's register commands.
BIAS_REGISTER = "0x5020"

#: Registers with the addresses of the tensors that an operator reads: input of a convolution, and
#: the inputs of what follows it, such as an addition.
_INPUT_REGISTERS = ("0x1070", "0x5018", "0x5038")

#: Register with the address of the tensor that an operator writes.
_OUTPUT_REGISTER = "0x4020"


def rocket_components(ledger: Ledger) -> dict[int, str]:
    """Return the component of each buffer that a submit names, by number.

    A tensor that one operator writes and another one reads is internal. A tensor that operators
    only read was written by the CPU, and the CPU reads one that they only write: both are `io`. An
    internal tensor that the CPU reads too, as an output of the model, is still internal.
    """
    constants: dict[int, str] = {}
    inputs: set[int] = set()
    outputs: set[int] = set()
    for submit in ledger.submits:
        constants.update(dict.fromkeys(submit.registers, "register_commands"))
        inputs.update(submit.inputs)
        outputs.update(submit.outputs)
        for read in submit.reads:
            if read.register == WEIGHT_REGISTER:
                constants[read.buffer] = "weights"
            elif read.register == BIAS_REGISTER:
                constants[read.buffer] = "biases"
            elif read.register in _INPUT_REGISTERS:
                inputs.add(read.buffer)
            elif read.register == _OUTPUT_REGISTER:
                outputs.add(read.buffer)

    components = dict.fromkeys(inputs ^ outputs, "io")
    components.update(dict.fromkeys(inputs & outputs, "internal"))
    return {**components, **constants}
