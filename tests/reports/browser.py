"""Headless Chromium, driven by selenium; tests that need it are skipped if it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

_BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_DRIVER = shutil.which("chromedriver")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync"
)

needs_browser = pytest.mark.skipif(
    not (_BROWSER and _DRIVER),
    reason="no Chromium with its driver (Debian: apt install chromium chromium-driver)",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: make test installs it"
    )
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    options = selenium.ChromeOptions()
    options.binary_location = _BROWSER
    for flag in _FLAGS.split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options, service.Service(_DRIVER))
    yield driver
    driver.quit()
