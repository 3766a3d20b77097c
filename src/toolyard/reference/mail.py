"""A tool that needs a user's account at a provider."""

from typing_extensions import TypedDict

from toolyard import Toolkit, authorization, user_id

mail = Toolkit("Mail", version="1.2.0", description="Reads a mailbox.")


class Email(TypedDict):
    sender: str
    subject: str


INBOX: list[Email] = [
    {"sender": "ada@example.com", "subject": "The analytical engine"},
    {"sender": "grace@example.com", "subject": "A moth in the relay"},
]


@mail.tool(
    requires=[authorization("google", scopes=["https://www.googleapis.com/auth/gmail.readonly"]), user_id],
    read_only=True,
)
async def get_emails(query: str = "") -> list[Email]:
    """Finds e-mails in a made-up mailbox. It needs a Google account's token, and sends it nowhere.

    Args:
        query: Words that the subject must contain.
    """
    return [email for email in INBOX if query.lower() in email["subject"].lower()]
