"""Conversations as infer requests over one compiled model, each of which has a state of its own.

OpenVINO GenAI has no class for it: its pipelines compile a model each. Its models are plain
OpenVINO's, which an application may run so.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np
import openvino as ov
from openvino import opset13 as operators

from reusebench.measured.runtimes.base import Conversation
from reusebench.measured.runtimes.language import Generated, hold_turn
from reusebench.measured.runtimes.openvino_genai.model import (
    check_room,
    config_of,
    failure_to_load,
    read_decoder,
)
from reusebench.measured.runtimes.openvino_genai.options import Options
from reusebench.measured.runtimes.prompts import prompt_tokens

__all__ = ["CompiledDecoder", "DecoderRequest"]


class CompiledDecoder:
    """A compiled model, which has the weights and the scratch memory of all requests."""

    def __init__(self, core: Any, model: str, options: Options) -> None:
        options.refuse_scheduler()
        self.path = model
        self.vocabulary = int(config_of(model)["vocab_size"])
        read = read_decoder(core, model)
        _keep_last_logits(read)
        try:
            self._compiled = core.compile_model(read, "CPU", options.properties)
        except RuntimeError as error:
            raise failure_to_load(error, model, options.words) from None
        self.inputs = {port.get_any_name() for port in self._compiled.inputs}

    def new_request(self) -> Any:
        """Return another request."""
        return self._compiled.create_infer_request()


class DecoderRequest(Generated):
    """The conversation of one context: a request, whose state is the cache."""

    def __init__(self, decoder: CompiledDecoder, conversation: Conversation) -> None:
        super().__init__()
        check_room(decoder.path, conversation.tokens)
        self.decoder = decoder
        self._conversation = conversation
        self._request = decoder.new_request()
        self._prompt = prompt_tokens(conversation.prompt, decoder.vocabulary)
        #: State of the common tokens, which each turn begins with; None: with an empty cache.
        self.state: Optional[List[Any]] = None

    def common_state(self) -> List[Any]:
        """Compute the common tokens, and return copies of the state's tensors."""
        self._request.reset_state()
        self._compute(self._prompt[: self._conversation.common], 0)
        return [np.array(variable.state.data) for variable in self._request.query_state()]

    def hold(self) -> None:
        """Hold a turn."""
        kept = self._conversation.common if self.state else 0
        given = self._prompt[kept:]
        length = kept

        def step(number: int) -> Sequence[int]:
            nonlocal given, length
            if number == 0:
                self._begin()
            token = self._compute(given, length)
            length += len(given)
            given = [token]
            return given

        hold_turn([self], len(given), self._conversation.generated, step)

    def _begin(self) -> None:
        self._request.reset_state()
        if self.state is not None:
            for variable, values in zip(self._request.query_state(), self.state):
                variable.state = ov.Tensor(values)

    def _compute(self, tokens: Sequence[int], past: int) -> int:
        """Compute tokens after those in the cache, and return the likeliest next one."""
        length = past + len(tokens)
        values = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, length), np.int64),
            "position_ids": np.arange(past, length, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self._request.infer({name: values[name] for name in self.decoder.inputs})
        logits = self._request.get_tensor("logits").data
        return int(logits[0, -1].argmax())


def _keep_last_logits(model: Any) -> None:
    """Compute the logits of the last token alone, as OpenVINO GenAI's pipelines do."""
    head = model.output("logits").get_node().input_value(0).get_node()
    if head.get_type_name() == "MatMul":
        last = operators.gather(
            head.input_value(0), operators.constant([-1], np.int64), operators.constant(1, np.int64)
        )
        head.input(0).replace_source_output(last.output(0))
        model.validate_nodes_and_infer_types()
