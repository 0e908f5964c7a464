import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.kernels.parameters import functions_in, kernels_in, parameter_of


@pytest.mark.parametrize(
    ("text", "kind", "base", "bits", "signed"),
    [
        ("const float* __restrict__ a", "pointer", "float", 0, False),
        ("float *restrict a", "pointer", "float", 0, False),
        ("double const *const a", "pointer", "double", 0, False),
        ("float a[]", "pointer", "float", 0, False),
        ("float a[][4]", "pointer", "float", 0, False),
        ("float (*)[4]", "pointer", "float*", 0, False),
        ("float**a", "pointer", "float*", 0, False),
        ("void*", "pointer", "void", 0, False),
        ("const __nv_bfloat16* a", "pointer", "__nv_bfloat16", 0, False),
        ("unsigned char* c", "pointer", "unsigned char", 0, False),
        ("unsigned n", "integer", "unsigned int", 32, False),
        ("unsigned", "integer", "unsigned int", 32, False),
        ("int const n", "integer", "int", 32, True),
        ("signed n", "integer", "int", 32, True),
        ("long long n", "integer", "long long", 64, True),
        ("long long int n", "integer", "long long", 64, True),
        ("unsigned long long int n", "integer", "unsigned long long", 64, False),
        ("long unsigned int n", "integer", "unsigned long", 64, False),
        ("short int n", "integer", "short", 16, True),
        ("char c", "integer", "char", 8, True),
        ("signed char c", "integer", "signed char", 8, True),
        ("size_t n", "integer", "size_t", 64, False),
        ("std::size_t n", "integer", "size_t", 64, False),
        ("cuda::std::uint16_t n", "integer", "uint16_t", 16, False),
        ("int8_t n", "integer", "int8_t", 8, True),
        ("bool yes", "bool", "bool", 8, False),
        ("_Bool yes", "bool", "bool", 8, False),
        ("float s", "float", "float", 32, False),
        ("const double s = 1.0", "float", "double", 64, False),
        ("const __grid_constant__ CUtensorMap m", "struct", "CUtensorMap", 0, False),
        ("struct Shape s", "struct", "Shape", 0, False),
        ("float4 v", "struct", "float4", 0, False),
        ("Array<int, 3> sizes", "struct", "Array<int, 3>", 0, False),
    ],
)
def test_a_parameter_is_read(text: str, kind: str, base: str, bits: int, signed: bool) -> None:
    found = parameter_of(text)
    assert (found.kind, found.base, found.bits, found.signed) == (kind, base, bits, signed)


def test_a_parameter_is_shown_without_its_promises() -> None:
    assert parameter_of("const  float* __restrict__\n a").text == "const float* a"
    assert parameter_of("const __grid_constant__ CUtensorMap m").text == "const CUtensorMap m"


CUDA = r"""
#define DECOY(x) extern "C" __global__ void decoy(int x) {
// extern "C" __global__ void commented(int x) {
/* extern "C" __global__ void also_commented(int x) { } */
struct Shape { int rows; int columns[2]; };
__constant__ float table[3] = {1, 2, 3};
__device__ float helper(float x) { return x > 0 ? x : -x; }
template <int N> __global__ void templated(int n) {}
namespace lesson { __global__ void mangled(int n) {} }
extern "C" __global__ void declared_only(float q);

extern "C" __global__ void __launch_bounds__(256, 2) wide(
    const float* __restrict__ a,  // n of them, (contiguous)
    float* __restrict__ b /* out, { */, long long n) {
    asm volatile("{ .reg .f32 t; }");
    if (n) { b[0] = '{'; }
}
extern "C" {
    __launch_bounds__(32 * (3 + 1)) __global__ void inside(unsigned n, Shape shape) {}
    __global__ void __cluster_dims__(2, 1, 1) clustered(void) {}
}
extern "C"
__global__
void
spread()
{
}
extern "C" __global__ void aligned(const __attribute__((aligned(64))) Shape shape, alignas(64) Shape other) {}
extern "C" __global__ void trusting(int n) noexcept {}
extern "C" __global__ void nested(Array<int, 3> sizes, Pair<Array<int, 2>, int> pair, float (*pointers)[2][3]) {}
extern "C" __global__ void last(int n) {}
"""


def test_kernels_are_found_among_everything_else() -> None:
    found = kernels_in(CUDA)
    assert {name: str(signature) for name, signature in found.items() if signature.extern_c} == {
        "wide": "(const float* a, float* b, long long n)",
        "inside": "(unsigned n, Shape shape)",
        "clustered": "()",
        "spread": "()",
        "aligned": "(const Shape shape, Shape other)",
        "trusting": "(int n)",
        "nested": "(Array<int, 3> sizes, Pair<Array<int, 2>, int> pair, float (*pointers)[2][3])",
        "last": "(int n)",
    }
    assert [name for name, signature in found.items() if not signature.extern_c] == ["templated", "mangled"]
    assert [parameter.kind for parameter in found["nested"].parameters] == ["struct", "struct", "pointer"]


def test_an_instance_of_a_template_has_the_types_of_its_arguments() -> None:
    text = "template <typename T, class U = int, int N = (2 > 1)>\n__global__ void f(const T* a, U count, T (*b)[N]) {}"
    template = kernels_in(text)["f"]
    assert template.template == ("T", "U", "N")
    assert str(template) == "(const T* a, U count, T (*b)[N])"
    instance = template.instance("f<unsigned char, long long, 4>")
    assert [(one.name, one.kind, one.base) for one in instance.parameters[:2]] == [
        ("a", "pointer", "unsigned char"),
        ("count", "integer", "long long"),
    ]
    assert (instance.name, instance.template) == ("f<unsigned char, long long, 4>", ())


C = r"""
#include <stdint.h>
#define OPEN {
typedef struct { int a; } Pair;
static int hidden(int a) { return a; }
static inline int hidden_too(int a) { return a; }
static const char* const words[] = {"{", "}"};
void scale(const float* restrict a, float* b, int64_t n) { for (int i = 0; i < n; i++) { b[i] = '{'; } }
int count(void) { return 1; }
__attribute__((noinline)) unsigned long big(size_t n) { return n; }
const char *name(int x) { return "{"; }
double dot(const double *a, const double *b, size_t n);
"""


def test_exported_functions_are_found_with_what_they_return() -> None:
    found = {name: (signature.returns, str(signature)) for name, signature in functions_in(C).items()}
    assert found == {
        "scale": ("void", "(const float* restrict a, float* b, int64_t n)"),
        "count": ("int", "()"),
        "big": ("unsigned long", "(size_t n)"),
        "name": ("pointer", "(int x)"),
    }


SCALARS = st.sampled_from(
    ["int", "unsigned", "long long", "size_t", "float", "double", "bool", "uint8_t", "CUtensorMap"]
)
POINTERS = st.sampled_from(["float*", "const float *", "const double* __restrict__", "void *", "__half *const"])
SPACE = st.sampled_from([" ", "\n    ", " /* , */ ", " // (\n"])


@given(st.lists(st.tuples(SCALARS | POINTERS, SPACE), max_size=12))
def test_as_many_parameters_are_found_as_were_written(types: list[tuple[str, str]]) -> None:
    written = ",".join(f"{space}{kind} p{at}{space}" for at, (kind, space) in enumerate(types))
    found = kernels_in(f'extern "C" __global__ void __launch_bounds__(2 * (8)) kernel({written}) {{ }}')["kernel"]
    assert [parameter.kind == "pointer" for parameter in found.parameters] == ["*" in kind for kind, _ in types]
    assert all(f"p{at}" in parameter.text for at, parameter in enumerate(found.parameters))


@given(st.text(alphabet='(){};,"\'/*#\\\n <>[]=&extern "C" __global__ void f(int a)', max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    kernels_in(text)
    functions_in(text)
