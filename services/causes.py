"""Why a job failed, waits, or holds nothing: every cause once, with what a person should do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Advice(StrEnum):
    """What a retry brings. The words are shown to people as they stand."""

    NOW = "Retry helps now"
    AFTER_FIX = "Retry after a fix"
    NEVER = "Retry will not help"
    ITSELF = "Comes back by itself"


class Fault(StrEnum):
    """Whose fault it is. It decides what a job pays: only `COMPANY` costs one of its attempts."""

    COMPANY = "company"
    SERVICE = "service"
    KEY = "key"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Cause:
    """`retries`: the job runs again by itself, after a pause, as long as its limit for that fault allows."""

    code: str
    meaning: str
    advice: Advice
    fault: Fault = Fault.COMPANY
    retries: bool = False


CAUSES: dict[str, Cause] = {
    cause.code: cause
    for cause in (
        Cause("not_found", "The service knows no such company.", Advice.NEVER),
        Cause("no_facts", "The company has filed nothing that can be read by a machine.", Advice.NEVER),
        Cause("no_accounts", "The company has filed no accounts yet.", Advice.NEVER),
        Cause("pdf_only", "The accounts exist on paper or as PDF only.", Advice.NEVER),
        Cause("not_available", "The filing is listed but its document is not available.", Advice.AFTER_FIX),
        Cause("parse_error", "The document could not be read.", Advice.AFTER_FIX),
        Cause("bad_request", "The service refused the request for this company.", Advice.AFTER_FIX),
        Cause("too_large", "The company's answers or its file are larger than allowed.", Advice.AFTER_FIX),
        Cause("too_slow", "The job ran longer than its list allows.", Advice.NOW, retries=True),
        Cause("bad_result", "The result could not be stored.", Advice.AFTER_FIX),
        Cause("extractor_error", "The extractor has a bug that this company meets.", Advice.AFTER_FIX),
        Cause("worker_lost", "The worker died each time it held this job.", Advice.AFTER_FIX, Fault.OURS),
        Cause("shutdown", "The worker was stopped; the job goes on elsewhere.", Advice.ITSELF, Fault.OURS),
        Cause("list_cancelled", "Its list was cancelled while the job ran.", Advice.ITSELF, Fault.OURS),
        Cause("service_error", "The service answered with an error.", Advice.NOW, Fault.SERVICE, True),
        Cause("service_unreachable", "The service could not be reached.", Advice.NOW, Fault.SERVICE, True),
        Cause(
            "bad_answer", "The service's answer was cut short or garbled.", Advice.NOW, Fault.SERVICE, True
        ),
        Cause("service_resting", "The service asked everybody to pause.", Advice.ITSELF, Fault.SERVICE, True),
        Cause("rate_limited", "Every usable key is at its limit.", Advice.ITSELF, Fault.KEY, True),
        Cause("key_invalid", "The service rejected the key.", Advice.AFTER_FIX, Fault.KEY, True),
        Cause("key_exhausted", "The key's quota is used up.", Advice.AFTER_FIX, Fault.KEY, True),
        Cause("no_key", "There is no usable key for the service.", Advice.AFTER_FIX, Fault.KEY, True),
    )
}
