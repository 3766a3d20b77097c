"""A real browser, for pages that people look at. It finds nothing but what is on this machine."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("TOOLYARD_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""The pages of a provider ask for a font on the internet."""


@contextmanager
def browsing() -> Iterator[Browser]:
    arguments = ["--no-sandbox", NOWHERE_ELSE] if os.geteuid() == 0 else [NOWHERE_ELSE]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
