"""Where K comes from: influence networks found in simulators and in data, with the evidence for every edge."""

from .interventional import intervene as intervene
from .rates import adjusted as adjusted
from .result import Discovery as Discovery
