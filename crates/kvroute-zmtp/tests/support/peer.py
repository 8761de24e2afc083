"""One libzmq peer, driven by a test over stdin and stdout.

    peer.py engine PUB REPLAY   a publisher and a replay socket, as engines have them
    peer.py sub ENDPOINT TOPIC  prints every message
    peer.py ask dealer|req ENDPOINT HEX...  sends one message, prints every answer

An endpoint is bound, or connected to with the prefix `connect:`; `-` is none. Further words of `engine`:
`heartbeat` (PINGs every 50 ms), `curve` (wants encryption), `hwm=COUNT` (drops what is beyond so many messages in its
queue; never by default), `replay-hwm=COUNT` (the same for the replay socket; engines leave it at 1000), `slow` (takes half a second to begin a replay, and a while for each message of it). Its
commands, one a line:

    publish SEQ HEX        published, and kept for replay
    lose SEQ HEX           only kept for replay, as if the wire had lost it
    flood COUNT BYTES      published from sequence 0 on
    burst FROM COUNT       batches that remove the block with their own number, published as fast as can be and kept
    forget                 nothing is left to replay

Output: `bound PUB REPLAY`, `replay SEQ` per request, `done VERB` per command; messages as hexadecimal frames, `-`
for an empty one and `#LENGTH` for one above 64 bytes.
"""

import queue
import struct
import sys
import threading
import time

import zmq

context = zmq.Context()

# [0.5, [["BlockRemoved", [HASH]]]] in MessagePack, up to the eight bytes of the hash.
BURST_HEAD = b"\x92\xcb" + struct.pack(">d", 0.5) + b"\x91\x92\xacBlockRemoved\x91\xcf"


def say(*words):
    print(*words, flush=True)


def show(part):
    return "-" if not part else part.hex() if len(part) <= 64 else f"#{len(part)}"


def open_socket(kind, endpoint, options=()):
    socket = context.socket(kind)
    socket.set_hwm(0)
    for option in options:
        if option.startswith("hwm="):
            socket.set_hwm(int(option.removeprefix("hwm=")))
    if "heartbeat" in options:
        socket.setsockopt(zmq.HEARTBEAT_IVL, 50)
    if "curve" in options:
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_server = True
    if endpoint.startswith("connect:"):
        socket.connect(endpoint.removeprefix("connect:"))
        return socket, endpoint
    socket.bind(endpoint)
    return socket, socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")


def run_engine(publisher_endpoint, replay_endpoint, *options):
    publisher, publisher_name = open_socket(zmq.PUB, publisher_endpoint, options)
    replay_options = [option.removeprefix("replay-") for option in options if option.startswith("replay-")]
    replay, replay_name = (
        (None, "-") if replay_endpoint == "-" else open_socket(zmq.ROUTER, replay_endpoint, replay_options)
    )
    say("bound", publisher_name, replay_name)
    commands, kept = queue.Queue(), []
    threading.Thread(target=lambda: [commands.put(line) for line in sys.stdin], daemon=True).start()
    while True:
        if replay is not None and replay.poll(0):
            peer, _, start = replay.recv_multipart()
            start = struct.unpack(">Q", start)[0]
            say("replay", start)
            time.sleep(0.5 if "slow" in options else 0)
            for sequence, payload in kept:
                if sequence >= start:
                    time.sleep(0.02 if "slow" in options else 0)
                    replay.send_multipart([peer, b"", b"kv-events", struct.pack(">Q", sequence), payload])
            replay.send_multipart([peer, b"", b"", b"\xff" * 8, b""])
        try:
            verb, *words = commands.get(timeout=0.01).split()
        except queue.Empty:
            continue
        if verb in ("publish", "lose"):
            sequence, payload = int(words[0]), bytes.fromhex(words[1])
            kept.append((sequence, payload))
            if verb == "publish":
                publisher.send_multipart([b"kv-events", struct.pack(">Q", sequence), payload])
        elif verb == "flood":
            for sequence in range(int(words[0])):
                publisher.send_multipart([b"kv-events", struct.pack(">Q", sequence), b"x" * int(words[1])])
        elif verb == "burst":
            first, count = map(int, words)
            for sequence in range(first, first + count):
                payload = BURST_HEAD + struct.pack(">Q", sequence)
                kept.append((sequence, payload))
                publisher.send_multipart([b"kv-events", struct.pack(">Q", sequence), payload])
        elif verb == "forget":
            kept.clear()
        say("done", verb)


def print_all(socket):
    while True:
        say(*map(show, socket.recv_multipart()))


def run_sub(endpoint, topic):
    socket = context.socket(zmq.SUB)
    socket.set_hwm(0)
    socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
    socket.connect(endpoint)
    print_all(socket)


def run_ask(kind, endpoint, *frames):
    socket = context.socket(zmq.DEALER if kind == "dealer" else zmq.REQ)
    socket.connect(endpoint)
    socket.send_multipart([b"" if frame == "-" else bytes.fromhex(frame) for frame in frames])
    print_all(socket)


{"engine": run_engine, "sub": run_sub, "ask": run_ask}[sys.argv[1]](*sys.argv[2:])
