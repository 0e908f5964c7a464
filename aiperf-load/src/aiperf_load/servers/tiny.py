"""A server of a real transformer: `aiperf_core.models`' tiny model with continuous batching, in a thread of its own."""

import asyncio
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web
from attrs import define, field, frozen

from aiperf_core.errors import UsageError
from aiperf_load.servers import protocol
from aiperf_load.servers.engine import Engine, WrongToken


@frozen(kw_only=True)
class Tiny:
    """State of the server.

    rows: requests in a batch.
    room: tokens of a request, prompt and answer together.
    model: a model of `aiperf_core.models`.
    """

    rows: int = 8
    room: int = 512
    model: str = "tiny"
    seed: int = 1

    def __attrs_post_init__(self) -> None:
        if self.rows < 1 or self.room < 2:
            raise UsageError(f"a server has rows from 1 and room from 2; got {self.rows} and {self.room}.")


@define(eq=False)
class _Wanted:
    """A request, and its tokens as they are made; None ends them."""

    asked: protocol.Asked
    made: int = 0
    gone: bool = False
    tokens: "asyncio.Queue[int | None]" = field(factory=asyncio.Queue)


class Handler:
    """Answers requests, and runs the engine: new requests join the batch between two steps."""

    def __init__(self, what: Tiny) -> None:
        self._engine = Engine(what.rows, what.room, what.seed, what.model)
        self.room = what.room
        self.seen: Counter[str] = Counter()
        self._waiting: deque[_Wanted] = deque()
        self._running: dict[int, _Wanted] = {}
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)

    def application(self) -> web.Application:
        """The web application."""
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/v1/completions", self._completion)
        application.router.add_post("/v1/chat/completions", self._chat)
        application.router.add_get("/stats", self._stats)
        application.cleanup_ctx.append(self._engine_runs)
        return application

    async def _engine_runs(self, _: web.Application):  # type: ignore[no-untyped-def]  # a generator of aiohttp
        task = asyncio.create_task(self._run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._thread.shutdown()

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, chat=True)

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response(dict(self.seen))

    async def answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        """A stream of tokens."""
        self.seen["requests"] += 1
        try:
            asked = protocol.asked(await request.read(), chat=chat, vocabulary=self._engine.vocabulary)
            if len(asked.prompt) + asked.tokens > self.room:
                raise protocol.BadRequest(
                    f"prompt and answer have {len(asked.prompt)} + {asked.tokens} tokens; there is room for {self.room}"
                )
        except protocol.BadRequest as bad:
            return protocol.error(400, str(bad))
        wanted = _Wanted(asked)
        self._waiting.append(wanted)
        self._wake.set()
        response = protocol.stream()
        await response.prepare(request)
        try:
            for number in range(asked.tokens):
                token = await wanted.tokens.get()
                if token is None:
                    await response.write(protocol.event({"error": {"message": "the model gave a wrong token"}}))
                    return response
                one = protocol.token(token, number, chat=asked.chat, last=number == asked.tokens - 1)
                await response.write(protocol.event(one))
        except (ConnectionError, asyncio.CancelledError):
            # Its row is given to the next request at the next step.
            wanted.gone = True
            raise
        end = protocol.event(protocol.usage(len(asked.prompt), asked.tokens)) if asked.usage else b""
        await response.write(end + protocol.DONE)
        self.seen["answered"] += 1
        return response

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._waiting and not self._running:
                self._wake.clear()
                await self._wake.wait()
            try:
                for row, token in (await loop.run_in_executor(self._thread, self._work)).items():
                    self._made(row, token)
            except WrongToken:
                self.seen["wrong tokens"] += 1
                for row in list(self._running):
                    self._running[row].tokens.put_nowait(None)
                    self._free(row)

    def _work(self) -> dict[int, int]:
        """Start what waits in the free rows, else make a step. In the engine's thread; the event loop waits for it."""
        free = self._engine.free
        if self._waiting and free:
            begun: dict[int, int] = {}
            for row in free[: len(self._waiting)]:
                wanted = self._waiting.popleft()
                self._running[row] = wanted
                begun[row] = self._engine.start(row, wanted.asked.prompt)
            return begun
        self.seen["steps"] += 1
        self.seen["tokens"] += len(self._running)
        return self._engine.step()

    def _made(self, row: int, token: int) -> None:
        wanted = self._running[row]
        wanted.tokens.put_nowait(token)
        wanted.made += 1
        if wanted.made == wanted.asked.tokens or wanted.gone:
            self._free(row)

    def _free(self, row: int) -> None:
        del self._running[row]
        if row not in self._engine.free:
            self._engine.end(row)
