"""Doorbells that ring, and one way for a tool to help a model try again."""

from toolyard import Context, ToolError, Toolkit

doorbell = Toolkit("Doorbell", version="0.1.0", description="Rings doorbells.")

BELLS = ("doorbell42", "doorbell84")


@doorbell.tool
async def ring(doorbell_id: str, ctx: Context) -> None:
    """Rings a doorbell.

    Args:
        doorbell_id: Which doorbell to ring.
    """
    if doorbell_id not in BELLS:
        raise ToolError(
            "Doorbell ID not found",
            developer_message=f"The doorbell with ID '{doorbell_id}' does not exist.",
            can_retry=True,
            additional_prompt_content=f"ids: {','.join(BELLS)}",
            retry_after_ms=500,
        )
    ctx.log(f"{doorbell_id} rings")
