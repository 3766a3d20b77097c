"""The pages of the demo provider. Each says that it is a demo."""

from html import escape

from .people import PEOPLE
from .provider import LoginQuestion

STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:2rem auto;"
    "padding:0 1rem}.demo{padding:.5rem .8rem;border-left:.3rem solid #c80;background:#c802}label{display:block}"
    "button{font:inherit;padding:.4rem 1.2rem;margin:1rem .8rem 0 0;border:1px solid;border-radius:.3rem}"
)
MEANINGS = {
    "openid": "know who you are",
    "email": "know your e-mail address",
    "offline_access": "go on while you are away",
    "mail.read": "read your mail",
}


def page(title: str, body: str) -> str:
    """A whole page. `title` is text, which is escaped here; `body` is HTML already."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body><main>"
        "<p class='demo'>This is the demo provider of toolyard. It has no passwords, its people are made up, and it is "
        f"gone when the demo ends.</p><h1>{escape(title)}</h1>{body}</main></body></html>"
    )


def ask(id: str, question: LoginQuestion) -> str:
    wanted = "".join(f"<li>{escape(MEANINGS[scope])}</li>" for scope in question.scopes)
    people = "".join(
        f"<label><input type='radio' name='person' value='{person.id}'{'' if number else ' checked'}> "
        f"{escape(person.name)}, {escape(person.email)}</label>"
        for number, person in enumerate(PEOPLE.values())
    )
    return page(
        "Allow it?",
        f"<p>The toolyard server of the demo asks to</p><ul>{wanted}</ul>"
        f"<form method='post' action='/authorize'><input type='hidden' name='id' value='{escape(id)}'>"
        f"<fieldset><legend>Who are you?</legend>{people}</fieldset>"
        "<button type='submit' name='say' value='allow'>Allow</button>"
        "<button type='submit' name='say' value='deny'>Deny</button></form>",
    )


def refused(reason: str) -> str:
    return page("This cannot be done", f"<p role='alert'>{escape(reason)}</p>")


def home() -> str:
    people = "".join(f"<li>{escape(person.name)}, {escape(person.email)}</li>" for person in PEOPLE.values())
    return page("Demo provider", f"<p>These people have accounts here:</p><ul>{people}</ul>")
