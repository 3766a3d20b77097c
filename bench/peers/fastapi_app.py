"""A hand-written FastAPI endpoint: what one would write without a tool server."""

import sys
import time
import uuid

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field

app = FastAPI()


class AddInput(BaseModel):
    a: float
    b: float


class Call(BaseModel):
    tool_id: str
    input: AddInput
    call_id: str = Field(default_factory=lambda: str(uuid.uuid4()))


class Outcome(BaseModel):
    call_id: str
    duration: float
    success: bool
    value: float


async def add(a: float, b: float) -> float:
    return a + b


@app.post("/tools/call")
async def call_tool(call: Call) -> Outcome:
    started = time.perf_counter()
    value = await add(call.input.a, call.input.b)
    duration = (time.perf_counter() - started) * 1000
    return Outcome(call_id=call.call_id, duration=duration, success=True, value=value)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
