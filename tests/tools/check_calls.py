# SPDX-License-Identifier: Apache-2.0
"""Calls that have no place in a layer, each with what to do instead, and SPDX lines at the top of files."""
import re
import sys

import tree

# call -> (layers or files where it is allowed, what to do instead)
BANNED = {
    r"getenv\(": ({"plugin", "base/param.c", "cli", "dropin"}, "take an option struct; plugin/ and cli/ fill it"),
    r"dt_clock_now_ns\(": ({"base", "cli", "job", "plugin", "softrnic/driver", "obs/server",
                            "obs/event_hook", "transport/device_thread", "transport/session/pair_thread", "transport/message/registration",
                            "hostpath/gpu_thread", "controller/redis_link"},
                           "take now_ns as an argument"),
    r"clock_gettime\(": ({"base/clock.c"}, "take now_ns as an argument"),
    r"\b(usleep|nanosleep|sleep)\(": ({"cli", "job", "softrnic/driver", "plugin/plugin.c"},
                                      "report a deadline; the driver of the thread waits"),
    r"\b(strcat|sprintf|gets|rand|srand)\(": (set(), "snprintf, dt_prng_next"),
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.S)


def allowed(places, layer, path, root):
    relative = str(path.relative_to(root))
    return any(layer == place or relative.startswith(place) for place in places)


def problems_in(root, layer, path):
    text = path.read_text()
    if "SPDX-License-Identifier: Apache-2.0" not in text.split("\n", 1)[0]:
        yield f"{path}: the first line must be the SPDX line"
    code = COMMENT.sub("", text)
    for call, (places, instead) in BANNED.items():
        if re.search(call, code) and not allowed(places, layer, path, root):
            yield f"{path}: {call} is not for {layer}/: {instead}"


def main(root):
    found = [p for layer, path in tree.sources(root, ".c", ".h") for p in problems_in(root, layer, path)]
    print("\n".join(found) or "calls: none out of place")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
