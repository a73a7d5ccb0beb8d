"""Driver on the official Python client: runs steps over one stdio connection and prints one JSON object.

Same options and same output as the JavaScript drivers beside it; `--mode modern` pins 2026-07-28.
"""

import argparse
import json
import sys
import warnings

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning

REVISION = "2026-07-28"

# Longer than any update takes to come.
PATIENCE = 20


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--mode", choices=["legacy", "auto", "modern"], default="legacy")
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("NAME", "JSON"))
    parser.add_argument("--parallel", action="store_true", help="start all calls at once")
    parser.add_argument("--progress", action="store_true", help="ask for progress and print it with the call")
    parser.add_argument("--cancel-after-progress", action="store_true")
    for kind in ("sampling", "elicitation", "roots"):
        parser.add_argument(f"--{kind}", action="store_true", help="answer these requests with fixed values")
    parser.add_argument("--decline", action="store_true", help="can be asked for a confirmation, and always says no")
    parser.add_argument("--resources", action="store_true", help="list resources and templates")
    parser.add_argument("--read", action="append", default=[], metavar="URI")
    parser.add_argument("--prompts", action="store_true", help="list prompts")
    parser.add_argument("--prompt", nargs=2, action="append", default=[], metavar=("NAME", "JSON"))
    parser.add_argument("--complete", nargs=3, action="append", default=[], metavar=("PROMPT", "ARG", "TEXT"))
    parser.add_argument("--complete-uri", nargs=3, action="append", default=[], metavar=("URI", "ARG", "TEXT"))
    parser.add_argument("--follow", nargs=4, action="append", default=[], metavar=("URI", "NAME", "JSON", "TEXT"))
    if "--" not in argv or argv[-1] == "--":
        parser.error("no command after --")
    split = argv.index("--")
    steps = parser.parse_args(argv[:split])
    steps.command, *steps.args = argv[split + 1 :]
    return steps


def plain(model):
    """A model as it stood on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def failure(error: Exception) -> dict:
    if isinstance(error, MCPError):
        return plain(error.error)
    return {"code": type(error).__name__, "message": str(error)}


async def outcome(awaitable) -> dict:
    try:
        return {"result": plain(await awaitable)}
    except Exception as error:
        return {"error": failure(error)}


async def pages(fetch, member: str) -> list:
    items, cursor = [], None
    while True:
        page = await fetch(cursor=cursor)
        items += [plain(item) for item in getattr(page, member)]
        cursor = page.next_cursor
        if cursor is None:
            return items


class Driver:
    def __init__(self, steps: argparse.Namespace) -> None:
        self.steps = steps
        self.updated = anyio.Event()
        self.updates = []
        self.cancelled = set()
        self.report = {"tools": [], "calls": [None] * len(steps.call), "finished": [], "requests": [], "notifications": []}

    def client(self) -> Client:
        steps = self.steps
        return Client(
            StdioServerParameters(command=steps.command, args=steps.args),
            mode=REVISION if steps.mode == "modern" else steps.mode,
            client_info=types.Implementation(name="toolgate-peer", version="1.0.0"),
            message_handler=self.on_message,
            sampling_callback=self.on_sampling if steps.sampling else None,
            elicitation_callback=self.on_elicitation if steps.elicitation or steps.decline else None,
            list_roots_callback=self.on_roots if steps.roots else None,
            cache=None,
        )

    async def on_message(self, message) -> None:
        if isinstance(message, Exception):
            self.report.setdefault("faults", []).append(str(message))
        else:
            if self.steps.cancel_after_progress and message.method == "notifications/progress":
                # The call is cancelled at its first one. How many others were on their way by then depends on the machine.
                token = message.params.progress_token
                if token in self.cancelled:
                    return
                self.cancelled.add(token)
            self.report["notifications"].append(message.method)
            if isinstance(message, types.ResourceUpdatedNotification):
                self.updates.append(message.params.uri)
                self.updated.set()

    def asked(self, method: str, params=None) -> None:
        self.report["requests"].append({"method": method, "params": None if params is None else plain(params)})

    async def on_sampling(self, _context, params) -> types.CreateMessageResult:
        self.asked("sampling/createMessage", params)
        content = types.TextContent(type="text", text="a fixed answer")
        return types.CreateMessageResult(role="assistant", model="fixed", stop_reason="endTurn", content=content)

    async def on_elicitation(self, _context, params) -> types.ElicitResult:
        self.asked("elicitation/create", params)
        if self.steps.decline:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True, "integer": 7, "confirm": True})

    async def on_roots(self, _context) -> types.ListRootsResult:
        self.asked("roots/list")
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])

    async def call(self, client: Client, index: int) -> None:
        name, arguments = self.steps.call[index]
        watch = self.steps.progress or self.steps.cancel_after_progress
        progress = []
        with anyio.CancelScope() as scope:

            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                if scope.cancel_called:
                    return
                step = {"progress": done, "total": total, "message": message}
                progress.append({key: value for key, value in step.items() if value is not None})
                if self.steps.cancel_after_progress:
                    scope.cancel()

            done = await outcome(
                client.call_tool(name, json.loads(arguments), progress_callback=on_progress if watch else None)
            )
        if scope.cancelled_caught:
            done = {"error": {"code": "cancelled", "message": "cancelled by the driver"}}
        self.report["calls"][index] = done | {"progress": progress} if watch else done
        self.report["finished"].append(index)

    async def calls(self, client: Client) -> None:
        if self.steps.parallel:
            async with anyio.create_task_group() as group:
                for index in range(len(self.steps.call)):
                    group.start_soon(self.call, client, index)
            return
        for index in range(len(self.steps.call)):
            await self.call(client, index)

    async def news(self):
        """An item for each update, or for many that came together."""
        while True:
            await self.updated.wait()
            self.updated = anyio.Event()
            yield

    async def until_read(self, client: Client, follow: tuple, news) -> types.ReadResourceResult:
        uri, name, arguments, text = follow
        await client.call_tool(name, json.loads(arguments))
        with anyio.fail_after(PATIENCE):
            async for _ in news:
                read = await client.read_resource(uri)
                if text in read.contents[0].text.split("\n"):
                    return read
        raise RuntimeError("the updates ended")

    async def follow(self, client: Client, follow: tuple) -> dict:
        uri = follow[0]
        if client.protocol_version == REVISION:
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                done = await outcome(self.until_read(client, follow, subscription))
        else:
            await client.subscribe_resource(uri)
            done = await outcome(self.until_read(client, follow, self.news()))
            await client.unsubscribe_resource(uri)
        done.get("result", {})["updates"] = self.updates
        return done

    async def run(self) -> None:
        report, steps = self.report, self.steps
        async with self.client() as client:
            report["protocolVersion"] = client.protocol_version
            report["serverInfo"] = None if client.server_info is None else plain(client.server_info)
            report["capabilities"] = plain(client.server_capabilities)
            report["instructions"] = client.instructions
            report["definitions"] = await pages(client.list_tools, "tools")
            report["tools"] = [tool["name"] for tool in report["definitions"]]
            await self.calls(client)
            if steps.resources:
                report["resources"] = await pages(client.list_resources, "resources")
                report["templates"] = await pages(client.list_resource_templates, "resource_templates")
            if steps.prompts:
                report["prompts"] = await pages(client.list_prompts, "prompts")
            report["reads"] = [await outcome(client.read_resource(uri)) for uri in steps.read]
            report["got"] = [await outcome(client.get_prompt(name, json.loads(args))) for name, args in steps.prompt]
            refs = [(types.PromptReference(type="ref/prompt", name=name), *rest) for name, *rest in steps.complete]
            refs += [(types.ResourceTemplateReference(type="ref/resource", uri=uri), *rest) for uri, *rest in steps.complete_uri]
            report["completions"] = [
                await outcome(client.complete(ref, {"name": arg, "value": text})) for ref, arg, text in refs
            ]
            report["followed"] = [await self.follow(client, follow) for follow in steps.follow]


def main() -> int:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    driver = Driver(parse(sys.argv[1:]))
    status = 0
    try:
        anyio.run(driver.run)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        driver.report["error"] = failure(error)
        status = 1
    print(json.dumps(driver.report))
    return status


if __name__ == "__main__":
    sys.exit(main())
