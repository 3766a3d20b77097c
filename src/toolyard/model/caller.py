"""Who is calling."""

from msgspec import Struct


class Caller(Struct, frozen=True):
    """`subject` is whom the server authenticated, `tenant` is whose house it is in, and `user_id` is the
    end user the caller speaks for, as the caller says."""

    tenant: str
    subject: str
    user_id: str | None = None


LOCAL = Caller(tenant="default", subject="local")
