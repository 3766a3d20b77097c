"""The documents' example tools, working: what `toolyard serve` serves when it is given nothing else."""

from .calculator import calculator
from .doorbell import doorbell
from .echo import echo
from .files import files
from .mail import mail
from .sms import sms
from .system import system

__all__ = ["calculator", "doorbell", "echo", "files", "mail", "sms", "system"]
