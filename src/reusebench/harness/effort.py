"""The amount of measuring unless an option says otherwise: by default, and with --quick."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.harness.conversations import DEFAULT_CONVERSATION
from reusebench.harness.measuring.models.model_sets import MOBILE, BuiltIn
from reusebench.harness.settings import StreamPace
from reusebench.measured.plan import Conversation
from reusebench.video.clip import Clip

__all__ = ["CONTEXTS", "DEFAULT", "QUICK", "SESSIONS", "SOAK_S", "STREAMS", "Effort"]

#: Number of streams.
STREAMS = 4
#: Number of contexts per stream.
CONTEXTS = 3
#: Number of conversations with a language model.
SESSIONS = 4
#: Streams that run as long as this or longer run once, unless --repeats says otherwise.
SOAK_S = 600.0


@dataclass(frozen=True)
class Effort:
    """The values of options that the user does not give."""

    built_in: BuiltIn
    repeats: int
    #: Upper bound of the repeats if memory differs between them.
    most_repeats: int
    rounds: int
    #: Time that a process without streams takes on 2 cores.
    process_s: float
    pace: StreamPace
    #: The clip that streams play. Making it takes 0.7 s of CPU time for each second of video.
    clip: Clip
    #: Cycles of each scenario in bench/test_leaks.py.
    cycles: int
    #: Inferences in a cycle of them. A pool of 1 MiB that leaks every 500th inference grows three
    #: times in 20 cycles.
    cycle_inferences: int = 100
    #: Language models only.
    conversation: Conversation = DEFAULT_CONVERSATION
    #: Timed turns of each conversation. A turn is longer than an inference of other models.
    turns: int = 2
    #: Turns in a cycle of them.
    cycle_turns: int = 4


#: Less than 6 minutes of ONNX Runtime on 2 cores. Most configurations have 144 timed inferences or
#: more; more rounds would narrow no figure of memory. docs/explanation/repeats.md has the
#: reasons for the numbers of repeats.
DEFAULT = Effort(
    BuiltIn(
        stream=("yolov5s", 320),
        in_turn=(("yolov5s", 640), ("resnet50", 224), ("mobilenet_v2", 224)),
        resolutions=(
            ("yolov5s", 320),
            ("yolov5s", 416),
            ("yolov5s", 640),
            ("yolov5s", 256),
            ("yolov5s", 512),
        ),
    ),
    repeats=2,
    most_repeats=3,
    rounds=6,
    process_s=3.5,
    pace=StreamPace(),
    clip=Clip(),
    cycles=20,
)
#: The effort of --quick; docs/evidence/first-answer.md has the time of each of its parts.
QUICK = Effort(
    MOBILE,
    repeats=2,
    most_repeats=3,
    rounds=5,
    process_s=1.5,
    pace=StreamPace(warm_up_s=0.5, duration_s=2.0),
    clip=Clip(seconds=3),
    cycles=15,
    conversation=Conversation(tokens=512, prompt=60, generated=8, common=32),
    turns=1,
)
