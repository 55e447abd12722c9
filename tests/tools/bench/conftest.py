"""The Python that has torch, which the bench starts what it measures in."""

from __future__ import annotations

import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

KERNEL = "torch-2.2.2"


@pytest.fixture(scope="session")
def kernel() -> KernelSpec:
    """Return the kernel that the lessons run on."""
    try:
        return KernelSpecManager().get_kernel_spec(KERNEL)
    except NoSuchKernel:
        pytest.fail(f"no kernel {KERNEL!r}: run these tests by `nox -s tests`")


@pytest.fixture(scope="session")
def ranks_python(kernel: KernelSpec) -> str:
    """Return the kernel's Python; it holds no accelerate."""
    return str(kernel.argv[0])
