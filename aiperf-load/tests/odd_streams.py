"""A server whose streams have one oddity each, named by the first part of the path; a program that prints its port.

A token comes each 4 ms. The server keeps when it wrote the tokens of each answer; a request of `/times` gets that.
"""

import asyncio
import json
import time

COUNT, STEP_S = 16, 0.004
CALL = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}


def chat(**delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def counts(completion):
    return {"prompt_tokens": 8, "completion_tokens": completion}


# The event of a token by its number; None where the event before has it already.
TOKENS = {
    "plain": lambda number: chat(content=" t"),
    "reasoning": lambda number: chat(reasoning_content=" t") if number < 12 else chat(content=" t"),
    "empty": lambda number: chat(content="" if number < 8 else " t"),
    "tools": lambda number: chat(**CALL),
    "role": lambda number: chat(content=" t"),
    "error": lambda number: chat(content=" t") | {"error": None, "usage": {}},
    "pairs": lambda number: None if number % 2 else chat(content=" t t") | {"usage": counts(number + 2)},
    "no-done": lambda number: chat(content=" t"),
    "returns": lambda number: chat(content=" t"),
}
times = []


def data(mode, content):
    text = f"data: {json.dumps(content)}\n\n".encode()
    return text.replace(b"\n", b"\r") if mode == "returns" else text


async def answer(mode, write, asked_s):
    written = []
    if mode == "role":
        await write(data(mode, chat(role="assistant", content="")))
    for number in range(COUNT):
        await asyncio.sleep(STEP_S)
        if event := TOKENS[mode](number):
            written.append(time.monotonic())
            await write(data(mode, event))
    end = [{"choices": [{"delta": {}, "finish_reason": "length"}]}, {"choices": [], "usage": counts(COUNT)}]
    await write(b"".join(data(mode, one) for one in end) + (b"data: [DONE]\n\n" if mode != "no-done" else b""))
    times.append((written[0] - asked_s, (written[-1] - written[0]) / (COUNT - COUNT // len(written))))


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0] or 0))
            asked_s, mode = time.monotonic(), head.split()[1].decode().split("/")[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

            async def write(piece):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()

            await (write(json.dumps(times).encode()) if mode == "times" else answer(mode, write, asked_s))
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
