// The plugins' kernels against float64 on the CPU, with no TensorRT, and their time against a plain copy.
//
//   kernels_test quick [NAME]   small shapes, every kernel and type: made for compute-sanitizer; NAME: of these operators
//   kernels_test check [NAME]   shapes N 1..8, C 1..2048, spatial 1..512 squared, odd sizes, rank 3 to 5; adversarial
//                               values
//     --shard I/N               every N-th case from the I-th, 0 to N - 1: so several can share the work
//     --blocks B                InstanceNorm over clusters of no more (synccheck, which knows 8)
//   kernels_test bench [NAME]   one JSON line a case: time, GB/s, ratio to cudaMemcpyAsync of the same bytes, this run
//   kernels_test tune [WHAT]    the same for other mappings of the large shapes; WHAT is pad, instance, l2norm
//                               or cache
//   kernels_test time MB WHAT:SHAPE...  the ratio alone, fp32 and fp16, of N x SHAPE with an N for MB or more; WHAT is
//                               l2 (along the first of SHAPE), l2w (weights), last, lastw (along the last), instance or
//                               reflect, symmetric, edge, wrap and a number of pads on the last two axes, with hwc
//                               at the end on the two before the last; or so many, of each axis of SHAPE its begin
//                               and its end: edge1,2,0,-1:30x50; with @ and a number in chunks of so many bytes
//
// x is copied by a kernel that lets the next one begin before: so a kernel that does not await it fails.
// Exit status 0 when everything agreed. The bars: error relative to the largest output, 2e-6 fp32, 1e-3 fp16, 8e-3
// bf16.
#include "../../surgeon/trt/plugins/src/operators.h"
#include "../../surgeon/trt/plugins/src/plans.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace surgeon;

#define CHECK(call)                                                                                                    \
    do                                                                                                                 \
    {                                                                                                                  \
        cudaError_t const status_ = (call);                                                                            \
        if (status_ != cudaSuccess)                                                                                    \
        {                                                                                                              \
            std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_));                    \
            std::exit(3);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace
{

using Dims = std::vector<int64_t>;

int64_t volume(Dims const& d)
{
    int64_t n = 1;
    for (int64_t v : d)
        n *= v;
    return n;
}

std::string text(Dims const& d)
{
    std::string s;
    for (int64_t v : d)
        s += (s.empty() ? "" : "x") + std::to_string(v);
    return s;
}

char const* const kTypeNames[] = {"fp32", "fp16", "bf16"};

float rounded(float f, Type t)
{
    if (t == Type::kHalf)
        return __half2float(__float2half_rn(f));
    if (t == Type::kBfloat16)
        return __bfloat162float(__float2bfloat16_rn(f));
    return f;
}

template <class F>
void parallel(int64_t n, F const& f)
{
    int64_t const threads = std::max<int64_t>(1, std::min<int64_t>(std::thread::hardware_concurrency(), n));
    std::vector<std::thread> pool;
    for (int64_t t = 0; t < threads; ++t)
        pool.emplace_back([&, t] {
            for (int64_t i = n * t / threads; i < n * (t + 1) / threads; ++i)
                f(i);
        });
    for (auto& t : pool)
        t.join();
}

// A device buffer of exactly the tensor's bytes, so that compute-sanitizer sees a read past its end.
struct Buffer
{
    void* p = nullptr;
    explicit Buffer(size_t bytes) { CHECK(cudaMalloc(&p, std::max<size_t>(bytes, 1))); }
    ~Buffer() { cudaFree(p); }
    Buffer(Buffer const&) = delete;
};

void upload(void* p, std::vector<float> const& v, Type t)
{
    if (t == Type::kFloat)
    {
        CHECK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
        return;
    }
    std::vector<uint16_t> h(v.size());
    for (size_t i = 0; i < v.size(); ++i)
        if (t == Type::kHalf)
        {
            __half const x = __float2half_rn(v[i]);
            std::memcpy(&h[i], &x, 2);
        }
        else
        {
            __nv_bfloat16 const x = __float2bfloat16_rn(v[i]);
            std::memcpy(&h[i], &x, 2);
        }
    CHECK(cudaMemcpy(p, h.data(), h.size() * 2, cudaMemcpyHostToDevice));
}

std::vector<float> download(void const* p, size_t n, Type t)
{
    std::vector<float> v(n);
    if (t == Type::kFloat)
    {
        CHECK(cudaMemcpy(v.data(), p, n * 4, cudaMemcpyDeviceToHost));
        return v;
    }
    std::vector<uint16_t> h(n);
    CHECK(cudaMemcpy(h.data(), p, n * 2, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i)
        if (t == Type::kHalf)
        {
            __half x;
            std::memcpy(&x, &h[i], 2);
            v[i] = __half2float(x);
        }
        else
        {
            __nv_bfloat16 x;
            std::memcpy(&x, &h[i], 2);
            v[i] = __bfloat162float(x);
        }
    return v;
}

// Lets the kernel behind it begin at once, and copies late: what does not wait for it reads what was there before.
__global__ void copy_late_kernel(unsigned char* to, unsigned char const* from, size_t bytes)
{
#if __CUDA_ARCH__ >= 900
    constexpr unsigned kNanoseconds = 20000;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    __nanosleep(kNanoseconds);
#endif
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += size_t(gridDim.x) * blockDim.x)
        to[i] = from[i];
}

void copy_late(Buffer const& to, Buffer const& from, size_t bytes)
{
    CHECK(cudaMemset(to.p, 0xdb, bytes));
    copy_late_kernel<<<64, 256>>>(static_cast<unsigned char*>(to.p), static_cast<unsigned char const*>(from.p), bytes);
    CHECK(cudaGetLastError());
}

enum class Values
{
    kNormal,
    kShifted,  // mean 10, deviation 1
    kZero,
    kZeroRows, // every third element of the second axis is zero, -0 among them
    kTiny,     // 1e-7 times normal
    kLarge,    // 1e3 times normal (100 in half)
    kConstant,
    kDenormal,
    kSpecial,  // some inf and NaN
    kSteps,    // 30 above the others where InstanceNorm's shares of 32 KiB take their provisional means
};

char const* const kValueNames[]
    = {"normal", "shifted", "zero", "zero rows", "tiny", "large", "constant", "denormal", "special", "steps"};

std::vector<float> values(Dims const& d, Values kind, Type type, unsigned seed)
{
    int64_t const n = volume(d);
    std::vector<float> v(n);
    int64_t const inner = d.size() > 1 ? volume(Dims(d.begin() + 2, d.end())) : 1, rows = d.size() > 1 ? d[1] : 1;
    int64_t const blocks = std::max<int64_t>(1, n / 65536);
    parallel(blocks, [&](int64_t b) {
        std::mt19937 rng(seed * 7919u + unsigned(b));
        std::normal_distribution<float> normal;
        for (int64_t i = n * b / blocks; i < n * (b + 1) / blocks; ++i)
        {
            float f = normal(rng);
            switch (kind)
            {
            case Values::kNormal: break;
            case Values::kShifted: f += 10.f; break;
            case Values::kZero: f = 0.f; break;
            case Values::kZeroRows: f = i / inner % rows % 3 == 1 ? (i % 2 ? -0.f : 0.f) : f; break;
            case Values::kTiny: f *= 1e-7f; break;
            case Values::kLarge: f *= type == Type::kHalf ? 100.f : 1e3f; break;
            case Values::kConstant: f = 10.1f; break;
            case Values::kDenormal: f *= 1e-40f; break;
            case Values::kSteps: f += i * size_of(type) / kVectorBytes % 2048 % 688 < 32 ? 30.f : 0.f; break;
            case Values::kSpecial:
                if (i % 997 == 3)
                    f = std::numeric_limits<float>::infinity();
                if (i % 1499 == 5)
                    f = -std::numeric_limits<float>::infinity();
                if (i % 2003 == 7)
                    f = std::numeric_limits<float>::quiet_NaN();
                break;
            }
            v[i] = rounded(f, type);
        }
    });
    return v;
}

struct Case
{
    Kind kind;
    Attributes a;
    Dims x;
    Type type = Type::kFloat;
    Values values = Values::kNormal;
    bool affine = false;              // weight, or scale and bias
    Type affine_type = Type::kFloat;
    Dims slope;                       // of PRelu
    Layout layout = Layout::kLinear;
    bool shifted = false;             // weight, scale and bias begin one element past an aligned address

    std::string name() const
    {
        std::string s = plugin_info(kind).name + (" " + text(x)) + " " + kTypeNames[int(type)] + " "
            + kValueNames[int(values)];
        if (kind == Kind::kSurgeonL2Norm)
            s += " axis " + std::to_string(a.axis) + " mode " + std::to_string(a.mode);
        if (kind == Kind::kSurgeonReflectPad)
        {
            s += " mode " + std::to_string(a.mode) + " pads";
            for (int i = 0; i < a.pads_count; ++i)
                s += " " + std::to_string(a.pads[i]);
        }
        return s + (affine ? " affine " : "") + (affine ? kTypeNames[int(affine_type)] : "")
            + (shifted ? " shifted" : "") + (layout == Layout::kChannelsLast8 ? " hwc8" : "");
    }

    Dims y() const
    {
        Dims d = x;
        for (size_t i = 0; i < d.size(); ++i)
            d[i] += growth(kind, a, int(i));
        return d;
    }
};

// ------------------------------------------------------------------------------------- float64 on the CPU

double norm_scale(double s, Attributes const& a)
{
    double const eps = a.epsilon;
    switch (a.mode)
    {
    case 0: return 1 / (std::sqrt(s) < eps ? eps : std::sqrt(s));
    case 1: return 1 / (std::sqrt(s) + eps);
    case 2: return 1 / std::sqrt(s < eps ? eps : s);
    case 3: return 1 / std::sqrt(s + eps);
    }
    return 1 / std::sqrt(s) > eps ? eps : 1 / std::sqrt(s);
}

int64_t source(int64_t o, int64_t n, int64_t begin, int64_t end, int mode)
{
    int64_t const crop = std::max<int64_t>(-begin, 0), size = n - crop - std::max<int64_t>(-end, 0);
    int64_t i = o - std::max<int64_t>(begin, 0);
    while (i < 0 || i >= size)
        switch (mode)
        {
        case 0: i = size == 1 ? 0 : i < 0 ? -i : 2 * size - 2 - i; break;
        case 1: i = i < 0 ? -1 - i : 2 * size - 1 - i; break;
        case 2: i = i < 0 ? 0 : size - 1; break;
        default: i += i < 0 ? size : -size;
        }
    return crop + i;
}

std::vector<double> reference(Case const& c, std::vector<float> const& x, std::vector<float> const& w,
    std::vector<float> const& b)
{
    Dims const out = c.y();
    std::vector<double> y(volume(out));
    int const rank = int(c.x.size());
    switch (c.kind)
    {
    case Kind::kSurgeonL2Norm:
    {
        int const axis = c.a.axis < 0 ? c.a.axis + rank : c.a.axis;
        int64_t const channels = c.x[axis], inner = volume(Dims(c.x.begin() + axis + 1, c.x.end())),
                      outer = volume(Dims(c.x.begin(), c.x.begin() + axis));
        parallel(outer * inner, [&](int64_t t) {
            int64_t const base = t / inner * channels * inner + t % inner;
            double s = 0;
            for (int64_t k = 0; k < channels; ++k)
                s += double(x[base + k * inner]) * x[base + k * inner];
            double const scale = norm_scale(s, c.a);
            for (int64_t k = 0; k < channels; ++k)
                y[base + k * inner] = x[base + k * inner] * scale * (c.affine ? w[k] : 1.0);
        });
        break;
    }
    case Kind::kSurgeonInstanceNorm:
    {
        int64_t const rows = c.x[0] * c.x[1], length = volume(c.x) / rows;
        parallel(rows, [&](int64_t r) {
            double mean = 0, m2 = 0;
            for (int64_t i = 0; i < length; ++i)
                mean += x[r * length + i];
            mean /= double(length);
            for (int64_t i = 0; i < length; ++i)
                m2 += (x[r * length + i] - mean) * (x[r * length + i] - mean);
            double const inv = 1 / std::sqrt(m2 / double(length) + c.a.epsilon);
            for (int64_t i = 0; i < length; ++i)
            {
                double v = (x[r * length + i] - mean) * inv;
                if (c.affine)
                    v = v * w[r % c.x[1]] + b[r % c.x[1]];
                y[r * length + i] = v < 0 ? v * c.a.slope : v;
            }
        });
        break;
    }
    case Kind::kSurgeonReflectPad:
    {
        parallel(volume(out) / out[rank - 1], [&](int64_t row) {
            for (int64_t col = 0; col < out[rank - 1]; ++col)
            {
                int64_t rest = row * out[rank - 1] + col, at = 0, stride = 1;
                for (int i = rank - 1; i >= 0; --i)
                {
                    at += source(rest % out[i], c.x[i], c.a.pads[i], c.a.pads[i + rank], c.a.mode) * stride;
                    rest /= out[i];
                    stride *= c.x[i];
                }
                y[row * out[rank - 1] + col] = x[at];
            }
        });
        break;
    }
    case Kind::kSurgeonLeakyRelu:
        parallel(volume(out), [&](int64_t i) { y[i] = x[i] < 0 ? double(x[i]) * c.a.alpha : x[i]; });
        break;
    case Kind::kSurgeonPRelu:
        parallel(volume(out), [&](int64_t e) {
            int64_t rest = e, at = 0, stride = 1;
            for (int i = rank - 1; i >= 0; --i)
            {
                int const j = i - (rank - int(c.slope.size()));
                if (j >= 0)
                {
                    at += (c.slope[j] == 1 ? 0 : rest % c.x[i]) * stride;
                    stride *= c.slope[j];
                }
                rest /= c.x[i];
            }
            y[e] = x[e] < 0 ? double(x[e]) * w[at] : x[e];
        });
        break;
    case Kind::kCount: break;
    }
    return y;
}

// A tensor's values in the order in which the layout stores them.
template <class V>
std::vector<V> to_channels_last(std::vector<V> const& v, Dims const& d)
{
    std::vector<V> r(v.size());
    int64_t const hw = d[2] * d[3];
    for (int64_t n = 0; n < d[0]; ++n)
        for (int64_t c = 0; c < d[1]; ++c)
            for (int64_t i = 0; i < hw; ++i)
                r[(n * hw + i) * d[1] + c] = v[(n * d[1] + c) * hw + i];
    return r;
}

Tensor tensor(void* p, Dims const& d, Type t, Layout layout = Layout::kLinear)
{
    Tensor r;
    r.data = p;
    r.type = t;
    r.layout = layout;
    r.rank = int(d.size());
    std::copy(d.begin(), d.end(), r.dims);
    return r;
}

struct Worst
{
    double error[3][8] = {}; // type, kind
    int cases = 0, failed = 0;
} worst;

void judge(Case const& c, std::vector<double> const& want, std::vector<float> const& got, std::string const& how)
{
    double largest = 0, error = 0;
    int64_t const n = int64_t(want.size());
    int64_t strange = 0, at = -1;
    double const limit = c.type == Type::kHalf ? 65504.0 : 3.4028234e38;
    for (int64_t i = 0; i < n; ++i)
        if (std::fabs(want[i]) <= limit)
            largest = std::max(largest, std::fabs(want[i]));
    for (int64_t i = 0; i < n; ++i)
    {
        if (std::isnan(want[i]) != std::isnan(got[i]) || (std::isinf(got[i]) && std::fabs(want[i]) < 0.99 * limit))
        {
            ++strange;
            at = i;
        }
        else if (std::fabs(want[i]) <= limit)
        {
            double const e = std::fabs(want[i] - got[i]);
            if (e > error)
            {
                error = e;
                at = i;
            }
        }
    }
    double const bar[3] = {2e-6, 1e-3, 8e-3}, smallest[3] = {1.5e-45, 6e-8, 9.2e-41};
    // Below the smallest normal number a type has absolute, not relative, steps; InstanceNorm's mean is one step off at
    // most, and its gain, up to 1 / sqrt(epsilon), multiplies that.
    double const gain = c.kind == Kind::kSurgeonInstanceNorm ? 1 / std::sqrt(double(c.a.epsilon)) : 1;
    double const steps = smallest[int(c.type)] * (c.values == Values::kDenormal ? gain : 1);
    double const relative = largest > 0 ? std::max(0.0, error - steps) / largest : error;
    bool const moved = c.kind == Kind::kSurgeonReflectPad; // and not computed
    bool const bad = strange > 0 || relative > (moved ? 0 : bar[int(c.type)]);
    ++worst.cases;
    worst.error[int(c.type)][int(c.kind)] = std::max(worst.error[int(c.type)][int(c.kind)], relative);
    if (bad)
    {
        ++worst.failed;
        std::printf("FAIL %s%s: error %.3g relative to %.3g, %lld unexpected NaN or inf, at %lld: %.9g, want %.9g\n",
            c.name().c_str(), how.c_str(), relative, largest, (long long) strange, (long long) at, got[at], want[at]);
    }
}

// What launches draw tickets from, which each of them must leave at 0.
size_t const kTicketsBytes = tickets_bytes(Kind::kSurgeonL2Norm);

unsigned* tickets()
{
    static Buffer const memory(kTicketsBytes);
    static cudaError_t const zeroed = cudaMemset(memory.p, 0, kTicketsBytes);
    CHECK(zeroed);
    return static_cast<unsigned*>(memory.p);
}

bool tickets_are_zero()
{
    std::vector<unsigned> left(kTicketsBytes / sizeof(unsigned));
    CHECK(cudaMemcpy(left.data(), tickets(), kTicketsBytes, cudaMemcpyDeviceToHost));
    return std::all_of(left.begin(), left.end(), [](unsigned v) { return v == 0; });
}

int64_t most_in_all_ways = 1 << 17; // elements; less for the sanitizers

std::string only;           // operators whose names contain this
int most_in_cluster = 16;   // blocks
unsigned shard = 0, shards = 1, seen = 0; // of the cases

void verify(Case const& c)
{
    if (std::string(plugin_info(c.kind).name).find(only) == std::string::npos)
        return;
    if (c.kind == Kind::kSurgeonInstanceNorm
        && plan_rows(c.type, c.x[0] * c.x[1], volume(c.x) / (c.x[0] * c.x[1]), device()).blocks > most_in_cluster)
        return;
    if (seen++ % shards != shard)
        return;
    static unsigned seed = 0;
    Dims const out = c.y();
    std::vector<float> x = values(c.x, c.values, c.type, ++seed), w, b;
    Dims wd{c.kind == Kind::kSurgeonL2Norm ? c.x[c.a.axis < 0 ? c.a.axis + int(c.x.size()) : c.a.axis]
        : c.x[c.x.size() > 1]};
    if (c.kind == Kind::kSurgeonPRelu)
        wd = c.slope;
    int const count = c.kind == Kind::kSurgeonPRelu ? 2 : !c.affine ? 1 : c.kind == Kind::kSurgeonL2Norm ? 2 : 3;
    Tensor const extents[3] = {tensor(nullptr, c.x, c.type, c.layout), tensor(nullptr, wd, c.affine_type),
        tensor(nullptr, wd, c.affine_type)};
    std::string const wrong = check(c.kind, c.a, extents, count); // the reference knows only what is taken
    if (!wrong.empty())
    {
        std::printf("FAIL %s: %s\n", c.name().c_str(), wrong.c_str());
        ++worst.failed;
        return;
    }
    w = values(wd, Values::kNormal, c.affine_type, ++seed);
    b = values(wd, Values::kNormal, c.affine_type, ++seed);
    std::vector<double> want = reference(c, x, w, b);
    if (c.layout == Layout::kChannelsLast8)
    {
        x = to_channels_last(x, c.x);
        want = to_channels_last(want, out);
    }
    int64_t const size = size_of(c.type), n = volume(out);
    int64_t const affine_size = size_of(c.affine_type), past = c.shifted ? affine_size : 0;
    Buffer brought(x.size() * size), dx(x.size() * size), dy(n * size), w_room(w.size() * affine_size + past),
        b_room(b.size() * affine_size + past);
    void *const dw = static_cast<char*>(w_room.p) + past, *const db = static_cast<char*>(b_room.p) + past;
    Buffer ws(workspace_bytes(c.kind, int(c.x.size()), c.x.data()));
    upload(brought.p, x, c.type);
    upload(dw, w, c.affine_type);
    upload(db, b, c.affine_type);
    CHECK(cudaMemset(dy.p, 0xdb, n * size));
    copy_late(dx, brought, x.size() * size);
    Tensor const in[3] = {tensor(dx.p, c.x, c.type, c.layout), tensor(dw, wd, c.affine_type),
        tensor(db, wd, c.affine_type)};
    CHECK(run(c.kind, c.a, in, count, tensor(dy.p, out, c.type, c.layout), ws.p, 0, seed % 2 ? tickets() : nullptr));
    CHECK(cudaDeviceSynchronize());
    std::vector<float> const got = download(dy.p, n, c.type);
    judge(c, want, got, "");
    // The other mappings.
    auto const again = [&](std::string const& how, auto const& launch) {
        CHECK(cudaMemset(dy.p, 0xdb, n * size));
        copy_late(dx, brought, x.size() * size);
        CHECK(launch());
        judge(c, want, download(dy.p, n, c.type), how);
    };
    if (c.kind == Kind::kSurgeonReflectPad)
        for (PadPlan const& plan : {PadPlan{0, false}, PadPlan{0, true}, PadPlan{384, false}, PadPlan{4096, true},
                 PadPlan{16384, false}})
            if (plan.chunk * 5 <= device().shared_bytes) // two chunks and what they need
                again(" in chunks of " + std::to_string(plan.chunk),
                    [&] {
                        return launch_pad(
                            plan, c.a, in[0], tensor(dy.p, out, c.type, c.layout), nullptr, tickets(), 0);
                    });
    int64_t const rows = c.x.size() > 1 ? c.x[0] * c.x[1] : 1, length = volume(c.x) / rows;
    InstanceNormParams const params{c.affine ? Scalars{dw, c.affine_type} : Scalars{},
        c.affine ? Scalars{db, c.affine_type} : Scalars{}, c.x.size() > 1 ? c.x[1] : 1, c.a.epsilon, c.a.slope};
    RowsPlan const in_large = plan_rows(c.type, int64_t(1) << 30, length, device());
    if (c.kind == Kind::kSurgeonInstanceNorm && in_large.staged)
        again(" as in large tensors", [&] {
            return launch_instance_norm(in_large, c.type, dx.p, dy.p, rows, length, params, ws.p, 0);
        });
    if (c.kind == Kind::kSurgeonInstanceNorm && in_large.periods)
        for (bool periods : {false, true})
            again(periods ? " by periods" : " staged", [&] {
                RowsPlan plan = plan_rows(c.type, rows, length, device());
                plan.periods = periods;
                return launch_instance_norm(plan, c.type, dx.p, dy.p, rows, length, params, ws.p, 0);
            });
    if (c.kind == Kind::kSurgeonInstanceNorm && length >= 64 && n <= most_in_all_ways && device().clusters)
    {
        int const vec = int(kVectorBytes / size);
        // for ways that run() takes with longer rows only
        Dims const roomy{rows, 1, std::max<int64_t>(length, 1 << 15)};
        Buffer space(workspace_bytes(c.kind, 3, roomy.data()));
        auto const with = [&](RowsPlan const& plan, std::string const& how) {
            again(how, [&] {
                return launch_instance_norm(plan, c.type, dx.p, dy.p, rows, length, params, space.p, 0);
            });
        };
        for (int blocks : {1, 2, 8, 16})
            for (int stages : {1, 2})
                if (blocks <= most_in_cluster
                    && share_vectors(length, vec, blocks) * stages * kVectorBytes <= (208 << 10))
                    with(RowsPlan{0, 0, 0, blocks, stages}, " over " + std::to_string(blocks) + " blocks, stages "
                        + std::to_string(stages));
        with(RowsPlan{0, 0, 0, 0, 0}, " read twice");
    }
    int const axis = c.a.axis < 0 ? c.a.axis + int(c.x.size()) : c.a.axis;
    if (c.kind == Kind::kSurgeonL2Norm && c.layout == Layout::kLinear)
    {
        int64_t const inner = volume(Dims(c.x.begin() + axis + 1, c.x.end())),
                      outer = volume(Dims(c.x.begin(), c.x.begin() + axis));
        static int turn = 0;
        constexpr int kWidths[] = {8, 16, 24, 32, 64};
        int const x = kWidths[turn % 5], round = turn / 5;
        ++turn;
        Scalars const weight = count == 2 ? Scalars{dw, c.affine_type} : Scalars{};
        Norm const norm{NormMode(c.a.mode), c.a.epsilon};
        // As run() would, and over any number of blocks, with tiles of any kind.
        TilesPlan const others{1 + round % 8, x, 3 + round % 3, 1 + round / 3 % 2};
        for (TilesPlan const& tiles : {plan_tiles(c.type, c.x[axis], inner), others})
            if (tiles_fit(tiles, c.type, c.x[axis]))
                again(" in tiles of " + std::to_string(tiles.x) + " vectors over " + std::to_string(tiles.blocks)
                        + " blocks, stages " + std::to_string(tiles.stages) + ", lag " + std::to_string(tiles.lag),
                    [&] {
                        return launch_l2norm_tiles(
                            tiles, c.type, dx.p, weight, dy.p, outer, c.x[axis], inner, norm, tickets(), 0);
                    });
        // As run() would, here and with many images, and in items that begin anywhere, of any number of lanes.
        int64_t const many = int64_t(1) << 30;
        for (ImagesPlan const& images : {plan_images(c.type, outer, c.x[axis], inner),
                 plan_images(c.type, many, c.x[axis], inner), ImagesPlan{1 + turn % 7, 1 + turn % 4, 1},
                 ImagesPlan{1 + turn % 5, 2 + turn % 3, 1 << turn % 7}, ImagesPlan{2 + turn % 3, 2, 3 + turn % 5}})
            if (images_fit(images, c.type, c.x[axis], inner))
                again(" in items of " + std::to_string(images.images) + " images, stages "
                        + std::to_string(images.stages) + ", lanes " + std::to_string(images.lanes),
                    [&] {
                        return launch_l2norm_images(
                            images, c.type, dx.p, weight, dy.p, outer, c.x[axis], inner, norm, tickets(), 0);
                    });
        // Columns, as on a device without bulk copies, and read twice.
        ColumnsPlan const columns = plan_columns(c.type, outer, c.x[axis], inner);
        for (ColumnsPlan const& plan : {columns, kReadTwice})
            if (n <= most_in_all_ways && plan.x * plan.y <= 512 && (inner > 1 || plan.packs == 0))
                again(" by columns, packs " + std::to_string(plan.packs), [&] {
                    return launch_l2norm_columns(plan, c.type, dx.p, weight, dy.p, outer, c.x[axis], inner, norm, 0);
                });
        // As run() would, and in narrow strips: by few threads, or by so many that the device holds fewer blocks.
        int const width = int(std::max<int64_t>(inner / (2 + turn % 3), 1));
        StripsPlan const narrow{width, 2 + turn % 3, outer > 1000 ? 640 : 32};
        for (StripsPlan const& strips : {plan_strips(c.type, c.x[axis], inner), narrow})
            if (strips_fit(strips, c.type, c.x[axis], inner))
                again(" in strips of " + std::to_string(strips.width), [&] {
                    return launch_l2norm_strips(
                        strips, c.type, dx.p, weight, dy.p, outer, c.x[axis], inner, norm, tickets(), 0);
                });
    }
    if (tickets_bytes(c.kind) > 0 && !tickets_are_zero())
    {
        std::printf("FAIL %s: tickets are left\n", c.name().c_str());
        ++worst.failed;
    }
}

Attributes l2(int axis, int mode, float eps)
{
    Attributes a;
    a.axis = axis;
    a.mode = mode;
    a.epsilon = eps;
    return a;
}

Attributes instance(float eps, float slope = 1.f)
{
    Attributes a;
    a.epsilon = eps;
    a.slope = slope;
    return a;
}

Attributes pads(std::vector<int> const& p, int mode = 0)
{
    Attributes a;
    a.pads_count = int(p.size());
    std::copy(p.begin(), p.end(), a.pads);
    a.mode = mode;
    return a;
}

Attributes leaky(float alpha)
{
    Attributes a;
    a.alpha = alpha;
    return a;
}

float usual_epsilon(int mode)
{
    return mode == 4 ? 1e12f : mode == 1 ? 1e-10f : 1e-12f;
}

// All operators on one shape.
void all_operators(Dims const& d, Type t, Values v, bool thorough)
{
    int const rank = int(d.size());
    static int turn = 0;
    for (int mode = 0; mode < 5; ++mode)
    {
        if (!thorough && mode != turn % 5)
            continue;
        for (int axis = 0; axis < rank; ++axis)
        {
            if (!thorough && axis != 1 && axis != rank - 1)
                continue;
            Case c{Kind::kSurgeonL2Norm, l2(turn % 2 ? axis : axis - rank, mode, usual_epsilon(mode)), d, t, v};
            c.affine = (turn + axis) % 2;
            c.affine_type = turn % 3 ? t : Type::kFloat;
            verify(c);
        }
    }
    if (rank >= 3 && rank <= 5)
    {
        Case c{Kind::kSurgeonInstanceNorm, instance(turn % 2 ? 1e-5f : 1e-3f, turn % 3 ? 1.f : 0.2f), d, t, v};
        c.affine = turn % 2;
        c.affine_type = turn % 3 ? t : Type::kFloat;
        verify(c);
    }
    for (int mode = 0; mode < 4; ++mode)
    {
        if (!thorough && mode != turn % 4)
            continue;
        std::vector<int> p(2 * rank, 0), q(2 * rank, 0);
        for (int i = std::max(0, rank - 2); i < rank; ++i)
        {
            p[i] = int(std::min<int64_t>(3, d[i] - 1));
            p[i + rank] = int(std::min<int64_t>(2 + i % 2, d[i] - 1));
        }
        verify(Case{Kind::kSurgeonReflectPad, pads(p, mode), d, t, v});
        for (int i = 0; i < rank; ++i)
        {
            q[i] = d[i] > 4 ? (i % 2 ? -1 : 2) : i == 0 ? 1 : 0;
            q[i + rank] = d[i] > 4 ? (i % 2 ? 3 : -2) : 0;
        }
        if (volume(d) < (1 << 22))
            verify(Case{Kind::kSurgeonReflectPad, pads(q, mode), d, t, v});
    }
    verify(Case{Kind::kSurgeonLeakyRelu, leaky(0.1f), d, t, v});
    std::vector<Dims> slopes{{1}, Dims(rank, 1), d};
    if (rank > 1)
    {
        Dims channel(rank - 1, 1);
        channel[0] = d[1];
        slopes.push_back(channel);
        slopes.push_back({d[rank - 1]});
    }
    for (size_t i = 0; i < slopes.size(); ++i)
        if (thorough || int(i) == turn % int(slopes.size()))
        {
            Case c{Kind::kSurgeonPRelu, Attributes{}, d, t, v};
            c.slope = slopes[i];
            c.affine_type = i % 2 ? t : Type::kFloat;
            verify(c);
        }
    if (rank == 4 && d[1] % 8 == 0 && t != Type::kFloat)
        for (Case c : {Case{Kind::kSurgeonL2Norm, l2(1, 0, 1e-12f), d, t, v},
                 Case{Kind::kSurgeonReflectPad, pads({0, 0, 1, 2, 0, 0, 2, -1}), d, t, v},
                 Case{Kind::kSurgeonLeakyRelu, leaky(0.3f), d, t, v}})
            if (d[2] > 2 && d[3] > 3)
            {
                c.layout = Layout::kChannelsLast8;
                verify(c);
            }
    ++turn;
}

// Chunks of a few planes, of half a word more, of rows of many planes, and more chunks than the device holds at once.
void padded_units(std::vector<Dims> const& shapes, Type t)
{
    for (Dims const& d : shapes)
        for (int mode = 0; mode < 4; ++mode)
        {
            int const far = mode == 0 ? int(d[2]) + 1 : 1; // beyond the extent
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 0, 1, 1, 0, 0, 1, 1}, mode), d, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 0, far, 3, 0, 0, 2, 4}, mode), d, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 2, 0, 1, 0, 1, -1, 0}, mode), d, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({-1, 0, 1, 0, 1, 0, 0, 1}, mode), d, t});
            if (d[3] > 60) // rows that lie far apart in x
                verify(Case{Kind::kSurgeonReflectPad, pads({0, 0, 1, -20, 0, 0, 1, -int(d[3] - 50)}, mode), d, t});
        }
}

// Padded on three axes: chunks with rows of two planes that lie apart in x, and of more.
void padded_planes(std::vector<Dims> const& shapes, Type t)
{
    for (Dims const& d : shapes)
        for (int mode = 0; mode < 4; ++mode)
            for (int pad : {1, 2, 3})
            {
                std::vector<int> p(2 * d.size(), pad);
                p[0] = p[d.size()] = 0;
                verify(Case{Kind::kSurgeonReflectPad, pads(p, mode), d, t});
            }
}

// Twice as many rows, along the last axis and as channels.
void short_rows(int64_t rows, int64_t length, Type t)
{
    Case c{Kind::kSurgeonL2Norm, l2(-1, int(length % 5), usual_epsilon(int(length % 5))), {2 * rows, length}, t};
    c.affine = length % 2;
    verify(c);
    Case d{Kind::kSurgeonInstanceNorm, instance(1e-5f, length % 3 ? 1.f : 0.3f), {2, rows, length}, t, Values::kShifted};
    d.affine = length % 4 < 2;
    verify(d);
}

// Channels that clusters share: of every number of packs, in all values that need care.
void shared_channels(std::vector<Dims> const& shapes, Type t, std::vector<Values> const& kinds)
{
    for (Dims const& d : shapes)
        for (Values v : kinds)
        {
            int const mode = int((d[2] + int(v)) % 5);
            Case c{Kind::kSurgeonL2Norm, l2(1, mode, usual_epsilon(mode)), d, t, v};
            c.affine = (d[1] / 64 + int(v)) % 2;
            verify(c);
        }
}

// Along an axis that a few elements follow.
void short_planes(int64_t outer, int64_t channels, int64_t inner, Type t, Values v = Values::kNormal)
{
    static int turn = 0;
    int const mode = turn++ % 5;
    Case c{Kind::kSurgeonL2Norm, l2(1, mode, usual_epsilon(mode)), {outer, channels, inner}, t, v};
    c.affine = turn % 2;
    c.affine_type = turn % 4 < 2 ? t : Type::kFloat;
    verify(c);
}

Type const kTypes[] = {Type::kFloat, Type::kHalf, Type::kBfloat16};

// L2Norm along the last axis with weights: as wide as x or fp32, at aligned addresses and at others.
void weighted_rows(int64_t rows, int64_t length, Type t, Values v = Values::kNormal)
{
    for (Type of : {Type::kFloat, t})
        for (bool shifted : {false, true})
        {
            Case c{Kind::kSurgeonL2Norm, l2(-1, int(length % 5), usual_epsilon(int(length % 5))), {rows, length}, t, v};
            c.affine = true;
            c.affine_type = of;
            c.shifted = shifted;
            verify(c);
        }
}

// InstanceNorm of few elements a channel, which meets blocks and periods of rows at every place.
void short_channels(int64_t images, int64_t channels, int64_t length, Type t, Values v = Values::kShifted)
{
    for (Type of : {Type::kFloat, t})
        for (bool shifted : {false, true})
        {
            float const slope = channels % 2 ? 1.f : 0.3f;
            Case c{Kind::kSurgeonInstanceNorm, instance(1e-5f, slope), {images, channels, length}, t, v};
            c.affine = true;
            c.affine_type = of;
            c.shifted = shifted;
            verify(c);
        }
}

// Launches on two streams at once, and a graph that is replayed, as execution contexts and trtexec --useCudaGraph make
// them: each with tickets of its own. In tiles, though the tensor is small, where the device can.
void at_once(Case const& c)
{
    if (std::string(plugin_info(c.kind).name).find(only) == std::string::npos || seen++ % shards != shard)
        return;
    constexpr int kStreams = 2, kTimes = 20;
    std::vector<float> const x = values(c.x, c.values, c.type, 7);
    std::vector<double> const want = reference(c, x, {}, {});
    int64_t const outer = c.x[0], inner = volume(c.x) / (outer * c.x[1]);
    TilesPlan const plan = plan_tiles(c.type, c.x[1], inner);
    Buffer const dx(x.size() * size_of(c.type));
    upload(dx.p, x, c.type);
    Tensor const in = tensor(dx.p, c.x, c.type);
    struct Context
    {
        Buffer y, tickets;
        cudaStream_t on = nullptr;

        explicit Context(size_t bytes) : y(bytes), tickets(kTicketsBytes)
        {
            CHECK(cudaMemset(tickets.p, 0, kTicketsBytes));
            CHECK(cudaStreamCreate(&on));
        }
        ~Context() { cudaStreamDestroy(on); }
    };
    Context contexts[kStreams] = {Context(x.size() * size_of(c.type)), Context(x.size() * size_of(c.type))};
    auto const launch = [&](Context const& context) {
        auto* const own = static_cast<unsigned*>(context.tickets.p);
        Norm const norm{NormMode(c.a.mode), c.a.epsilon};
        return plan.blocks > 0
            ? launch_l2norm_tiles(
                plan, c.type, dx.p, Scalars{}, context.y.p, outer, c.x[1], inner, norm, own, context.on)
            : run(c.kind, c.a, &in, 1, tensor(context.y.p, c.x, c.type), nullptr, context.on, own);
    };
    auto const judge_all = [&](std::string const& how) {
        for (Context const& context : contexts)
        {
            CHECK(cudaStreamSynchronize(context.on));
            judge(c, want, download(context.y.p, x.size(), c.type), how);
            CHECK(cudaMemset(context.y.p, 0xdb, x.size() * size_of(c.type)));
        }
    };
    for (int i = 0; i < kTimes; ++i)
        for (Context const& context : contexts)
            CHECK(launch(context));
    judge_all(" on two streams");
    for (Context const& context : contexts)
    {
        cudaGraph_t graph;
        cudaGraphExec_t replayed;
        CHECK(cudaStreamBeginCapture(context.on, cudaStreamCaptureModeThreadLocal));
        CHECK(launch(context));
        CHECK(cudaStreamEndCapture(context.on, &graph));
        CHECK(cudaGraphInstantiate(&replayed, graph, 0));
        for (int i = 0; i < kTimes; ++i)
            CHECK(cudaGraphLaunch(replayed, context.on));
        CHECK(cudaStreamSynchronize(context.on));
        CHECK(cudaGraphExecDestroy(replayed));
        CHECK(cudaGraphDestroy(graph));
    }
    judge_all(" by a graph");
}

void quick()
{
    most_in_all_ways = 1 << 16;
    for (Type t : kTypes)
        at_once(Case{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), {1, 640, 2001}, t, Values::kNormal});
    for (Type t : kTypes)
    {
        for (Dims const& d : std::vector<Dims>{{1, 3, 5, 7}, {2, 8, 4, 8}, {2, 5, 33}, {1, 2, 3, 4, 5}, {3, 70, 1},
            {1, 16, 9, 12}})
            all_operators(d, t, Values::kNormal, true);
        // Every mapping of rows: block, 16 packs, clusters, tiles; a row that starts misaligned.
        for (int64_t length : {600, 1025, 5001, 20011, 40003, 150001, 600011})
            verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {1, 2, length}, t, Values::kShifted});
        // More rows than the device holds at once.
        for (int64_t length : {36001, 36004})
            verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {3, 90, t == Type::kFloat ? length : 2 * length},
                t, Values::kShifted});
        verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {1, 2, 100003}, t, Values::kSteps});
        verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {1, 1, 4600011}, t, Values::kShifted}); // read twice
        // Channels over a cluster, at every shift inside a vector; rows in shared memory.
        for (Dims const& d : std::vector<Dims>{{3, 33, 133}, {1, 100, 257}, {2, 600, 131}, {1, 2048, 132},
            {2, 513, 16, 16}, {1, 200, 38, 38},
                 {140, 33, 133}, {70, 300, 133}, {150, 96, 7, 7}, {70, 64, 10, 10}, {3, 40, 19, 19}, {1500, 8, 9}})
            verify(Case{Kind::kSurgeonL2Norm, l2(1, int(d[1] % 4), 1e-10f), d, t, Values::kNormal});
        for (int64_t length = 1; length <= 26; ++length)
        {
            short_rows(300, length, t);
            short_channels(3, 3, length, t);
            short_channels(70, 20 + length % 3, length, t);
        }
        for (int64_t length : {1, 3, 4, 9})
            short_channels(2, 5001, length, t);
        for (int64_t length : {1, 2, 3, 5}) // blocks of all their periods
            short_channels(500, 20 + length % 3, length, t);
        for (int64_t length :
            {1, 9, 30, 64, 201, 255, 512, 1000, 1023, 2048, 4352, 5001, 8192, 8195, 17001, 20000, 46341, 65001,
                131073})
            weighted_rows(length < 1000 ? 70 : 9, length, t);
        for (int64_t length : {20, 64, 121, 255, 1023, 2100, 4001, 4352, 5855})
            short_rows(30, length, t);
        for (int64_t length : {17, 24}) // blocks of all their threads
            short_rows(8500, length, t);
        short_rows(1060, 201, t);
        for (int64_t inner = 2; inner <= 16; ++inner)
            for (int64_t channels : {int64_t(1), int64_t(2), int64_t(3), 16 / inner, 5 + inner, 70 + 3 * inner})
                short_planes(15, std::max(channels, int64_t(1)), inner, t);
        for (int64_t channels = 2; channels <= 9; ++channels)
            for (int64_t inner : {17, 30, 370})
                short_planes(61, channels, inner, t, inner == 30 ? Values::kZeroRows : Values::kNormal);
        for (int64_t inner : {2, 5, 7, 8, 15})
            short_planes(3, 2047 + inner, inner, t);
        shared_channels({{1, 512, 37}, {140, 640, 9}, {2, 768, 131}, {1, 1024, 300}, {2, 1536, 70}, {3, 301, 67},
                            {1, 509, 140}, {3, 701, 33}, {1, 1999, 65}},
            t, {Values::kNormal});
        shared_channels({{2, 640, 200}, {1, 897, 70}, {2, 383, 91}}, t, {Values::kZeroRows, Values::kSpecial});
        shared_channels({{2, 537, 163}, {90, 261, 139}, {1, 1100, 257}}, t, {Values::kNormal}); // of every block some
        shared_channels({{2, 130, 301}}, t, {Values::kZeroRows, Values::kSpecial});
        for (int64_t channels : {9, 100, 300, 600, 1500, 3000, 5000})
            verify(Case{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), {1, channels, channels % 2 ? 5 : 12}, t,
                Values::kNormal});
        for (int64_t length : {5, 130, 1025, 5001, 40003, 150001})
            verify(Case{Kind::kSurgeonL2Norm, l2(-1, 2, 1e-10f), {2, length}, t, Values::kNormal});
        padded_planes({{2, 5, 24, 30}, {1, 3, 30, 100}}, t);
        padded_units({{5, 7, 9, 11}, {2, 20, 60, 61}, {2, 1, 1701, 3}, {2, 2, 600, 19}, {2, 2, 400, 70},
                         {2, 5, 90, 17}}, t);
    }
}

// Random values, made once and copied over the tensor: zeros can run faster than data.
void fill(void* p, int64_t elements, Type t)
{
    static std::vector<float> const sample = values({1, 1, 1 << 20}, Values::kNormal, Type::kHalf, 99);
    int64_t const size = size_of(t), part = int64_t(sample.size());
    for (int64_t i = 0; i < elements; i += part)
        if (i == 0)
            upload(p, std::vector<float>(sample.begin(), sample.begin() + std::min(part, elements)), t);
        else
            CHECK(cudaMemcpy(static_cast<char*>(p) + i * size, p, std::min(part, elements - i) * size,
                cudaMemcpyDeviceToDevice));
}

// A tensor of more than 2^31 elements, which tiles take in parts: some images as by themselves.
void tiles_in_parts()
{
    int64_t const channels = 131, inner = 1003, image = channels * inner, some = 16, size = 2,
                  part = ((int64_t(1) << 31) - 1) / image / 8 * 8, outer = part + 40;
    TilesPlan const plan = plan_tiles(Type::kHalf, channels, inner);
    bool const wanted = std::string(plugin_info(Kind::kSurgeonL2Norm).name).find(only) != std::string::npos;
    if (plan.blocks == 0 || shard != 0 || !wanted)
        return;
    Buffer const dx(outer * image * size), dy(outer * image * size), dz(some * image * size);
    fill(dx.p, outer * image, Type::kHalf);
    auto const launch = [&](int64_t from, int64_t images, void* y) {
        CHECK(launch_l2norm_tiles(plan, Type::kHalf, static_cast<char*>(dx.p) + from * image * size, Scalars{}, y,
            images, channels, inner, Norm{NormMode::kAddNorm, 1e-10f}, tickets(), 0));
    };
    launch(0, outer, dy.p);
    for (int64_t from : {int64_t(0), part - some / 2, outer - some})
    {
        launch(from, some, dz.p);
        std::vector<char> whole(some * image * size), alone(whole.size());
        CHECK(cudaMemcpy(whole.data(), static_cast<char*>(dy.p) + from * image * size, whole.size(),
            cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(alone.data(), dz.p, alone.size(), cudaMemcpyDeviceToHost));
        ++worst.cases;
        if (whole == alone)
            continue;
        ++worst.failed;
        std::printf("FAILED: image %lld of a tensor in parts\n", static_cast<long long>(from));
    }
}

// A tensor that outgrows the L2 cache, with tickets, with a workspace in their place and with neither.
void large(int64_t channels, int64_t inner, Type type, bool weighted)
{
    int64_t const most = (int64_t(40) << 20) / size_of(type), outer = std::max<int64_t>(most / (channels * inner), 1);
    Case c{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), {outer, channels, inner}, type, Values::kNormal};
    c.affine = weighted;
    if (std::string(plugin_info(c.kind).name).find(only) == std::string::npos || seen++ % shards != shard)
        return;
    std::vector<float> const x = values(c.x, c.values, type, 7);
    std::vector<float> const w = weighted ? values({channels}, c.values, Type::kFloat, 8) : std::vector<float>{};
    std::vector<double> const want = reference(c, x, w, {});
    Buffer const dx(x.size() * size_of(type)), dy(x.size() * size_of(type)), dw(channels * sizeof(float)), ws(16);
    upload(dx.p, x, type);
    upload(dw.p, w, Type::kFloat);
    Tensor const in[2] = {tensor(dx.p, c.x, type), tensor(dw.p, {channels}, Type::kFloat)};
    struct Drawn
    {
        char const* how;
        void* workspace;
        unsigned* tickets;
    };
    for (Drawn const& drawn : {Drawn{" with tickets", nullptr, tickets()}, Drawn{" with a workspace", ws.p, nullptr},
             Drawn{" in turn", nullptr, nullptr}})
    {
        CHECK(cudaMemset(dy.p, 0xdb, x.size() * size_of(type)));
        CHECK(run(c.kind, c.a, in, weighted ? 2 : 1, tensor(dy.p, c.x, type), drawn.workspace, 0, drawn.tickets));
        CHECK(cudaDeviceSynchronize());
        judge(c, want, download(dy.p, x.size(), type), drawn.how);
    }
}

void check_all()
{
    tiles_in_parts();
    for (Type t : kTypes)
        for (Dims const& d : std::vector<Dims>{{971, 925}, {290, 25}, {1795, 78}, {135, 734}, {64, 4096}, {21, 3},
            {640, 16641}, {1200, 6001}, {300, 2048}, {5, 40001}, {512, 49}})
            large(d[0], d[1], t, d[0] % 2 == 0);
    std::vector<Dims> shapes;
    for (int64_t n : {1, 2, 8})
        for (int64_t c : {1, 3, 64, 511, 2048})
            for (int64_t s : {1, 2, 7, 15, 38, 64, 129, 256, 512})
                if (n * c * s * s <= (int64_t(1) << 21))
                    shapes.push_back({n, c, s, s});
    for (Dims const& d : std::vector<Dims>{{1, 3, 511, 509}, {2, 5, 300, 301}, {1, 64, 256, 256}, {3, 33, 65},
        {2, 128, 1000},
             {1, 1, 1}, {5, 7, 262143}, {1, 4, 9, 16, 16}, {2, 3, 31, 33, 35}, {1, 2, 128, 128, 64}, {1, 1, 2050, 2049},
             {4, 96, 14, 14}, {1, 1, 512, 512}, {8, 17, 3, 1}, {2, 2048, 7, 9}, {1, 4100, 6}, {2, 8, 1, 40},
                 {2, 80, 255, 257}, {1, 40, 512, 512}, {1, 150, 181, 363}, {2, 3, 1024, 1023},
             {2, 512, 13, 13}, {2, 600, 9, 33}, {3, 96, 17, 31}, {1, 2048, 12, 16}, {2, 300, 38, 38},
                 {1, 2048, 48, 48}, {1, 512, 65, 65},
             {4, 300, 11, 11}})
        shapes.push_back(d);
    for (Type t : kTypes)
    {
        shared_channels({{3, 384, 1001}, {2, 512, 3003}, {2, 640, 703}, {2, 768, 2501}, {1, 896, 333}, {3, 1024, 66},
                            {1, 1280, 1217}, {2, 1536, 515}, {1, 1792, 129}, {5, 2048, 601}, {400, 256, 130}, {3, 257, 999},
                            {5, 333, 1033}, {2, 401, 2050}, {7, 511, 155}, {3, 600, 501}, {1, 1000, 441}, {3, 1025, 87},
                            {1, 1409, 350}, {3, 2047, 99}},
            t, {Values::kNormal});
        shared_channels({{2, 512, 333}, {1, 2048, 95}, {3, 130, 701}, {1, 601, 260}, {2, 57, 1203}}, t,
            {Values::kZero, Values::kZeroRows, Values::kTiny, Values::kLarge, Values::kDenormal, Values::kSpecial});
    }
    for (Dims const& d : shapes)
        for (Type t : kTypes)
        {
            all_operators(d, t, Values::kNormal, false);
            all_operators(d, t, Values::kShifted, false);
        }
    for (Dims const& d : std::vector<Dims>{{2, 5, 7, 9}, {1, 64, 24, 24}, {2, 3, 100, 101}, {1, 2, 300, 300},
        {2, 3, 5, 6, 7}, {3, 40, 11}})
        for (Type t : kTypes)
            for (Values v : {Values::kZero, Values::kZeroRows, Values::kTiny, Values::kLarge, Values::kConstant,
                     Values::kDenormal, Values::kSpecial})
                all_operators(d, t, v, true);
    for (Type t : kTypes) // L2Norm: tensors that outgrow the L2 cache, whose tiles and images are drawn
        for (Dims const& d : std::vector<Dims>{{600, 512, 7, 7}, {170, 1024, 10, 10}, {100, 512, 19, 19},
            {1500, 64, 14, 14}, {9001, 35, 7, 9}, {100001, 3, 11, 19}, {300001, 2, 5, 21}, {40001, 4, 20, 23},
                 {1001, 129, 11, 13}, {330, 257, 15, 17}, {2100, 1061, 2, 5}, {1300, 300, 5, 11}, {200, 1917, 3, 19},
                 {800, 9001, 3}, {110, 566, 7, 49}, {110, 363, 550}, {45, 537, 1623}, {400, 130, 701}, {50, 1100, 601},
                 {90, 70, 5003}, {50, 2500, 301}, {30, 512, 38, 38}, {90, 3, 225, 227}, {60, 17, 129, 127},
                 {7, 61, 257, 255}, {300, 2, 181, 183}})
        {
            Case c{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), d, t};
            c.affine = true;
            verify(c);
        }
    for (Type t : kTypes) // L2Norm: long rows that are drawn, and InstanceNorm: blocks of all their periods
    {
        for (Dims const& d : std::vector<Dims>{{4000, 4360}, {2600, 8195}, {1300, 20001}, {700, 40003}})
            for (bool weighted : {false, true})
            {
                Case c{Kind::kSurgeonL2Norm, l2(-1, 1, 1e-10f), d, t};
                c.affine = weighted;
                verify(c);
            }
        for (int64_t length : {1, 2, 3, 6})
            for (int64_t channels : {20, 64, 129})
                short_channels(1100, channels, length, t);
    }
    for (Type t : kTypes) // L2Norm: short planes, of odd and even images, in more blocks than the device holds
    {
        for (int64_t inner = 2; inner <= 16; ++inner)
        {
            for (int64_t channels : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32, 45, 64, 101, 200, 333, 512, 1025, 2047, 2048,
                     4000})
                for (int64_t outer : {1, 2, 133})
                    short_planes(outer, channels, inner, t);
            for (int64_t channels : {1, 2, 3, 5, 40, 401})
                for (Values v : {Values::kZero, Values::kZeroRows, Values::kTiny, Values::kLarge, Values::kConstant,
                         Values::kDenormal, Values::kSpecial})
                    short_planes(37, channels, inner, t, v);
        }
        for (Dims const& d : std::vector<Dims>{{5000001, 3, 2}, {3000001, 1, 7}, {900001, 17, 3}, {40001, 77, 9},
                 {3001, 1023, 8}, {801, 2047, 15}})
            short_planes(d[0], d[1], d[2], t);
    }
    for (Type t : kTypes) // InstanceNorm: rows whose parts lie far apart, and all ways at the ends of a share
    {
        for (Dims const& d : std::vector<Dims>{{1, 5, 65536}, {2, 3, 65536 + 1}, {1, 3, 131072}, {1, 2, 1 << 20}})
            for (Values v : {Values::kSteps, Values::kShifted, Values::kConstant, Values::kSpecial})
                verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f, 0.3f), d, t, v});
        for (int64_t length = 16384; length < 16384 + 40; length += 3)
            for (int64_t n : {1, 2})
                verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {n, 3, length * 2}, t, Values::kShifted});
        for (int64_t length = 60; length < 1100; length += 37)
            verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f, 0.3f), {2, 150, length}, t, Values::kShifted});
        for (int64_t length = 1; length < 40; ++length)
            short_rows(9001, length, t);
        for (int64_t length = 40; length < 5900; length += length / 4)
            for (int64_t rows : {3, 1101})
                short_rows(rows, length, t);
        for (int64_t length = 1; length <= 26; ++length)
        {
            for (int64_t channels : {1, 2, 63, 64, 1028})
                short_channels(37, channels, length, t);
            for (Values v : {Values::kZero, Values::kZeroRows, Values::kTiny, Values::kLarge, Values::kConstant,
                     Values::kDenormal, Values::kSpecial})
            {
                short_channels(9, 31, length, t, v);
                weighted_rows(257, length, t, v);
            }
        }
        verify(Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), {2, 330001, t == Type::kFloat ? 13 : 25}, t,
            Values::kShifted, true}); // outgrows the L2 cache
        for (int64_t length = 27; length < 66000; length += length / 3)
            for (int64_t more : {0, 1, 8})
                for (int64_t rows : {3, 61})
                    weighted_rows(rows, (length & -8) + more, t);
    }
    for (Type t : kTypes) // pads beyond the extent, one pixel, whole-axis wraps
        for (int mode = 0; mode < 4; ++mode)
        {
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 9, 0, 17}, mode), {5, 4}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 0, 0, 0}, mode), {5, 4}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({3, 2}, mode), {1}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({-2, 11, 4, -3}, mode), {9, 6}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({1, 0, 2, 1, 0, 3}, mode), {4, 3, 8}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 0, 0, 2, 0, 0, 0, 1}, mode), {4, 3, 8, 32}, t});
            verify(Case{Kind::kSurgeonReflectPad, pads({0, 1, 0, 0, 0, 1, 0, 0}, mode), {2, 8, 15, 31}, t});
        }
    for (Type t : kTypes)
        padded_planes({{3, 6, 50, 96}, {2, 9, 96, 97}, {5, 7, 20, 31}, {2, 3, 4, 9, 14}, {1, 4, 130, 262},
                          {9, 12, 7, 5}}, t);
    for (Type t : kTypes)
        padded_units({{3, 37, 7, 7}, {41, 13, 15, 15}, {7, 9, 47, 47}, {30, 64, 30, 30}, {2, 3, 700, 12}, {3, 2, 2, 1},
                         {6, 5, 48, 48}, {4, 40, 62, 65}, {2, 9, 300, 3},
                         {2, 3, 450, 21}, {3, 2, 520, 64}, {2, 3, 9000, 12}, {3, 2, 5003, 1}, {2, 2, 700, 24}, {70, 10, 1200, 4}}, t);
}

// ---------------------------------------------------------------------------------------------------- timing

struct Timer
{
    cudaEvent_t from, to;
    Timer()
    {
        CHECK(cudaEventCreate(&from));
        CHECK(cudaEventCreate(&to));
    }
    template <class F>
    double microseconds(int repeats, F const& f)
    {
        CHECK(cudaEventRecord(from));
        for (int i = 0; i < repeats; ++i)
            f();
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, from, to));
        return ms * 1e3 / repeats;
    }
};

double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

bool ratio_alone = false; // printed

// Times f and a copy of as many bytes in turn, prints the medians, unless the ratio alone is wanted, and returns the
// median of the pairs' ratios.
template <class F>
double compare(std::string const& op, std::string const& shape, Type t, std::string const& note, size_t in_bytes,
    size_t out_bytes, void* x, void* y, F const& f)
{
    static Timer timer;
    size_t const copied = (in_bytes + out_bytes) / 2;
    int const repeats = copied > (64u << 20) ? 5 : 20, rounds = copied > (64u << 20) ? 9 : 15;
    std::vector<double> mine, copy, ratio;
    for (int i = -2; i < rounds; ++i)
    {
        double const c = timer.microseconds(
            repeats, [&] {
                CHECK(cudaMemcpyAsync(
                    y, x, std::min(copied, std::min(in_bytes, out_bytes)), cudaMemcpyDeviceToDevice));
            });
        double const m = timer.microseconds(repeats, f);
        if (i < 0)
            continue;
        double const scaled = c * double(copied) / double(std::min(copied, std::min(in_bytes, out_bytes)));
        mine.push_back(m);
        copy.push_back(scaled);
        ratio.push_back(scaled / m);
    }
    if (ratio_alone)
        return median(ratio);
    std::printf("{\"op\": \"%s\", \"shape\": \"%s\", \"type\": \"%s\", \"note\": \"%s\", \"us\": %.2f, \"gb_s\": %.0f, "
                "\"copy_us\": %.2f, \"of_copy\": %.3f}\n",
        op.c_str(), shape.c_str(), kTypeNames[int(t)], note.c_str(), median(mine),
        double(in_bytes + out_bytes) / median(mine) / 1e3, median(copy), median(ratio));
    std::fflush(stdout);
    return median(ratio);
}

// The ratio to a copy; with a plan: ReflectPad's.
double time_case(Case const& c, std::string const& note, PadPlan const* plan = nullptr)
{
    Dims const out = c.y();
    Dims wd{c.kind == Kind::kSurgeonL2Norm ? c.x[c.a.axis < 0 ? c.a.axis + int(c.x.size()) : c.a.axis] : c.x[1]};
    if (c.kind == Kind::kSurgeonPRelu)
        wd = c.slope;
    int64_t const size = size_of(c.type), in_bytes = volume(c.x) * size, out_bytes = volume(out) * size;
    Buffer dx(in_bytes), dy(std::max(in_bytes, out_bytes)), dw(volume(wd) * 4),
        ws(workspace_bytes(c.kind, int(c.x.size()), c.x.data()));
    fill(dx.p, volume(c.x), c.type);
    fill(dw.p, volume(wd), Type::kFloat);
    Tensor const in[3] = {tensor(dx.p, c.x, c.type, c.layout), tensor(dw.p, wd, c.affine_type),
        tensor(dw.p, wd, c.affine_type)};
    int const count = c.kind == Kind::kSurgeonPRelu ? 2 : !c.affine ? 1 : c.kind == Kind::kSurgeonL2Norm ? 2 : 3;
    Tensor const y = tensor(dy.p, out, c.type, c.layout);
    return compare(plugin_info(c.kind).name, text(c.x), c.type, note, in_bytes, out_bytes, dx.p, dy.p, [&] {
        CHECK(plan ? launch_pad(*plan, c.a, in[0], y, ws.p, tickets(), 0)
                   : run(c.kind, c.a, in, count, y, ws.p, 0, tickets()));
    });
}

void bench(std::string const& only)
{
    auto const time_case = [&](Case const& c, std::string const& note) {
        if (plugin_info(c.kind).name == only || only.empty())
            ::time_case(c, note);
    };
    for (Type t : {Type::kFloat, Type::kHalf})
    {
        auto const weighted = [&](Case c) {
            c.type = t;
            c.affine = true;
            c.affine_type = t;
            return c;
        };
        int64_t const twice = t == Type::kFloat ? 1 : 2;
        Dims const small{1, 64, 256, 256};
        time_case(weighted({Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), small}), "SSD, weight");
        time_case(weighted({Kind::kSurgeonInstanceNorm, instance(1e-5f), small}), "affine");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 3, 3, 0, 0, 3, 3}), small, t}, "3 on H and W");
        time_case({Kind::kSurgeonLeakyRelu, leaky(0.1f), small, t}, "");
        Case prelu{Kind::kSurgeonPRelu, Attributes{}, small, t};
        prelu.slope = {64, 1, 1};
        prelu.affine_type = t;
        time_case(prelu, "per channel");
        for (Dims const& d : std::vector<Dims>{{1, 512, 38, 38}, {8, 512, 38, 38}, {8, 512, 7, 7}, {8, 16, 255, 255}})
            time_case(weighted({Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), d}), "in the L2 cache, weight");
        for (Dims const& d : std::vector<Dims>{{1, 256, 64, 64}, {8, 256, 31, 31}, {8, 512, 14, 14}, {8, 2048, 7, 7}})
            time_case({Kind::kSurgeonReflectPad, pads({0, 0, 1, 1, 0, 0, 1, 1}), d, t}, "in the L2 cache, reflect 1");

        for (Dims const& d : std::vector<Dims>{{16 * twice, 64, 256, 256}, {8 * twice, 512, 128, 128},
            {16 * twice, 2048, 48, 48},
                 {32 * twice, 512, 65, 65}, {64 * twice, 512, 38, 38}, {92 * twice, 512, 38, 38},
                 {364 * twice, 512, 19, 19}, {1312 * twice, 512, 10, 10}, {2676 * twice, 512, 7, 7},
                 {96 * twice, 3, 512, 512}, {4 * twice, 2048, 97, 97}, {4 * twice, 1024, 129, 129},
                 {8 * twice, 128, 257, 257}, {17 * twice, 16, 511, 511}, {443 * twice, 3, 225, 225},
                 {32768 * twice, 512, 2, 2}})
            time_case(weighted({Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), d}), "axis 1, weight");
        for (Dims const& d : std::vector<Dims>{{65536 * twice, 1024}, {1048576 * twice, 64}, {65536 * twice, 1023},
            {8192 * twice, 8192}})
            time_case({Kind::kSurgeonL2Norm, l2(-1, 0, 1e-12f), d, t}, "last axis");
        for (Dims const& d : std::vector<Dims>{{32768 * twice, 2048}, {65536 * twice, 1023}})
            time_case(weighted({Kind::kSurgeonL2Norm, l2(-1, 0, 1e-12f), d}), "last axis, weight");
        for (Dims const& d : std::vector<Dims>{{16 * twice, 64, 256, 256}, {16 * twice, 256, 128, 128},
            {8 * twice, 2048, 64, 64}, {64 * twice, 1024, 32, 32}, {256 * twice, 2048, 11, 11},
            {16 * twice, 512, 97, 97}, {16 * twice, 1024, 79, 79}, {8 * twice, 512, 145, 145},
            {16 * twice, 64, 255, 255}, {4 * twice, 64, 512, 512}, {4 * twice, 64, 511, 511},
            {116600 * twice, 64, 3, 3}})
            time_case(weighted({Kind::kSurgeonInstanceNorm, instance(1e-5f), d}), "affine, on chip");
        for (Dims const& d : std::vector<Dims>{{1 * twice, 64, 1024, 1024}, {1 * twice, 16, 2048, 2048},
            {1 * twice, 4, 4096, 4096}, {1 * twice, 32, 128, 128, 128}})
            time_case(weighted({Kind::kSurgeonInstanceNorm, instance(1e-5f), d}), "affine, not on chip");
        for (Dims const& d : std::vector<Dims>{{16 * twice, 64, 256, 256}, {4 * twice, 64, 512, 512},
            {16 * twice, 64, 255, 257}})
            for (int mode : {0, 2})
                time_case({Kind::kSurgeonReflectPad, pads({0, 0, 3, 3, 0, 0, 3, 3}, mode), d, t},
                    mode ? "edge 3" : "reflect 3");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 1, 1, 0, 0, 1, 1}), {64 * twice, 256, 64, 64}, t},
            "reflect 1");
        time_case({Kind::kSurgeonReflectPad, pads({0, 1, 0, 0, 0, 1, 0, 0}), {16 * twice, 64, 256, 256}, t},
            "reflect 1 on C");
        for (Dims const& d : std::vector<Dims>{{300 * twice, 256, 30, 30}, {128 * twice, 256, 48, 48},
            {1400 * twice, 256, 14, 14}, {128 * twice, 256, 47, 47}})
            time_case({Kind::kSurgeonReflectPad, pads({0, 0, 1, 1, 0, 0, 1, 1}), d, t}, "reflect 1");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 3, 3, 0, 0, 3, 3}), {1 * twice, 16, 2048, 2048}, t},
            "reflect 3");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 40, 40, 0, 0, 40, 40}), {16 * twice, 64, 256, 256}, t},
            "reflect 40");
        for (Dims const& d : std::vector<Dims>{{2 * twice, 32, 128, 96, 96}, {4 * twice, 64, 64, 62, 80},
            {38 * twice, 64, 30, 30, 30}})
            time_case({Kind::kSurgeonReflectPad, pads({0, 0, 2, 2, 2, 0, 0, 2, 2, 2}), d, t}, "reflect 2, 3-D");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 1, 1, 1, 0, 0, 1, 1, 1}), {32 * twice, 64, 32, 32, 32}, t},
            "reflect 1, 3-D");
        time_case({Kind::kSurgeonReflectPad, pads({0, 0, 2, 2, 2, 0, 0, 2, 2, 2}, 3), {2 * twice, 32, 128, 96, 96}, t},
            "wrap 2, 3-D");
        time_case({Kind::kSurgeonLeakyRelu, leaky(0.1f), {16 * twice, 64, 256, 256}, t}, "");
        prelu.x = {16 * twice, 64, 256, 256};
        time_case(prelu, "per channel");
        if (t == Type::kHalf)
        {
            Case c{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), {16 * twice, 512, 128, 64}, t};
            c.layout = Layout::kChannelsLast8;
            time_case(c, "hwc8");
        }
    }
}

// One of `time`'s: "l2w:512x65x65".
bool time_word(int64_t bytes, std::string const& word)
{
    size_t const colon = word.find(':');
    std::string const what = word.substr(0, colon), mode_name = what.substr(0, what.find_first_of("-0123456789"));
    std::vector<int> given;
    for (size_t at = mode_name.size() - 1; at < what.size(); at = what.find(',', at + 1))
        given.push_back(std::atoi(what.c_str() + at + 1));
    size_t const chunked = what.find('@');
    PadPlan const plan{chunked < what.size() ? std::atoi(what.c_str() + chunked + 1) : 0, false};
    Dims d{1};
    for (size_t at = colon; at != std::string::npos; at = word.find('x', at + 1))
        d.push_back(std::atoll(word.c_str() + at + 1));
    char const* const modes[] = {"reflect", "symmetric", "edge", "wrap"};
    auto const* const mode = std::find(modes, modes + 4, mode_name);
    size_t const after = what.find("hwc") != std::string::npos ? 1 : 0; // axes without pads
    bool const last = what.rfind("last", 0) == 0, l2norm = last || what == "l2" || what == "l2w",
               padded = mode != modes + 4 && d.size() > 2 + after;
    if (volume(d) < 1 || !(l2norm || padded || (what == "instance" && d.size() > 2)))
        return false;
    std::printf("%s", word.c_str());
    for (Type t : {Type::kFloat, Type::kHalf})
    {
        d[0] = 1;
        d[0] = ceil_div(bytes, volume(d) * int64_t(size_of(t)));
        std::vector<int> p(2 * d.size(), 0);
        if (padded && given.size() == 2 * d.size() - 2)
            for (size_t i = 0; i < given.size(); ++i)
                p[1 + i / 2 + i % 2 * d.size()] = given[i];
        else if (padded)
            for (size_t end : {d.size() - after, 2 * d.size() - after})
                p[end - 2] = p[end - 1] = given[0];
        Case c{Kind::kSurgeonL2Norm, l2(last ? -1 : 1, 1, 1e-10f), d, t};
        if (what == "instance")
            c = Case{Kind::kSurgeonInstanceNorm, instance(1e-5f), d, t};
        if (padded)
            c = Case{Kind::kSurgeonReflectPad, pads(p, int(mode - modes)), d, t};
        c.affine = what.back() == 'w' || what == "instance";
        c.affine_type = t;
        std::printf(" %s %.3f", kTypeNames[int(t)], time_case(c, "", padded && chunked < what.size() ? &plan : nullptr));
    }
    std::printf("\n");
    std::fflush(stdout);
    return true;
}

// Other mappings of the shapes that decide; `bench` shows what run() chooses.
void tune(std::string const& only)
{
    auto const wanted = [&](char const* what) { return only.empty() || only == what; };
    for (Type t : {Type::kFloat, Type::kHalf})
    {
        int64_t const twice = t == Type::kFloat ? 1 : 2, size = size_of(t);
        int64_t const elements = int64_t(20) * twice * 64 * 65536;
        Buffer dx(elements * size), dy(elements * size), dw(4096 * 4), ws(64 << 20);
        fill(dx.p, elements, t);
        fill(dw.p, 4096, Type::kFloat);
        Norm const norm{NormMode::kAddNorm, 1e-10f};
        auto const time = [&](char const* op, Dims const& d, std::string const& note, auto const& f) {
            compare(op, text(d), t, note, volume(d) * size, volume(d) * size, dx.p, dy.p, f);
        };
        if (wanted("pad"))
            for (Dims const& d : std::vector<Dims>{{1, 64, 256, 256}, {16 * twice, 64, 256, 256},
                {16 * twice, 64, 255, 257},
                     {64 * twice, 256, 64, 64}})
                for (int chunk : {0, 4096, 8192, 16384})
                {
                    Case const c{Kind::kSurgeonReflectPad, pads({0, 0, 3, 3, 0, 0, 3, 3}), d, t};
                    Dims const out = c.y();
                    compare("pad", text(d), t, "chunk " + std::to_string(chunk), volume(d) * size, volume(out) * size,
                        dx.p, dy.p, [&] {
                            CHECK(launch_pad(
                                PadPlan{chunk, false}, c.a, tensor(dx.p, d, t), tensor(dy.p, out, t), nullptr, tickets(), 0));
                        });
                }
        if (wanted("instance"))
            for (Dims const& d : std::vector<Dims>{{1, 3, 10000}, {1, 32, 16384}, {1, 64, 4096}, {1, 3, 262144},
                {1, 3, 1 << 20},
                     {256 * twice, 4096, 64}, {64 * twice, 4096, 144}, {64 * twice, 4096, 256}, {48 * twice, 4096, 324},
                     {30 * twice, 2048, 1089}, {16 * twice, 1024, 4225}, {16 * twice, 128, 181 * 181},
                         {16 * twice, 64, 65025},
                     {16 * twice, 64, 65536}, {4 * twice, 64, 262144}, {3 * twice, 64, 350 * 1000},
                         {1 * twice, 64, 1 << 20},
                     {twice, 32, 1 << 21}, {twice, 16, 3 << 20}, {twice, 16, 1 << 22}, {twice, 4, 1 << 24}})
            {
                auto const way = [&](RowsPlan const& plan, std::string const& note) {
                    time("instance", d, note, [&] {
                        CHECK(launch_instance_norm(plan, t, dx.p, dy.p, d[0] * d[1], d[2],
                            InstanceNormParams{
                                Scalars{dw.p, Type::kFloat}, Scalars{dw.p, Type::kFloat}, d[1], 1e-5f, 1.f},
                            ws.p, 0));
                    });
                };
                way(plan_rows(t, d[0] * d[1], d[2], device()), "as run");
                if (d[2] < 65025)
                    continue;
                for (int blocks : {4, 8, 16})
                    for (int stages : {1, 2})
                        if (share_vectors(d[2], int(16 / size), blocks) * stages * kVectorBytes <= (208 << 10))
                            way(RowsPlan{0, 0, 0, blocks, stages}, std::to_string(blocks) + " blocks, stages "
                                + std::to_string(stages));
                way(RowsPlan{0, 0, 0, 0, 0}, "read twice");
            }
        if (wanted("l2norm"))
            for (Dims const& d : std::vector<Dims>{{16 * twice, 2048, 2304}, {32 * twice, 512, 4225},
                {64 * twice, 512, 1444},
                     {8 * twice, 512, 16384}, {16 * twice, 64, 65025}, {16 * twice, 64, 65028},
                         {16 * twice, 1024, 4096},
                     {128 * twice, 256, 1444}, {4 * twice, 4096, 2304}, {64 * twice, 2048, 196},
                         {16 * twice, 32, 65025}, {4 * twice, 2048, 9409}, {4 * twice, 1024, 16641}, {4 * twice, 512, 33489},
                     {4 * twice, 256, 66049}, {8 * twice, 128, 66049}, {3 * twice, 1536, 14641}, {4 * twice, 768, 22201},
                     {4 * twice, 1280, 14641}})
            {
                ColumnsPlan const columns = plan_columns(t, d[0], d[1], d[2]);
                if (columns.x * columns.y <= 512 && int64_t(columns.packs) * columns.y >= d[1])
                    time("l2norm tiles", d, "columns of " + std::to_string(columns.pack_bytes) + " bytes", [&] {
                        CHECK(launch_l2norm_columns(columns, t, dx.p, Scalars{dw.p, Type::kFloat}, dy.p, d[0], d[1],
                            d[2],
                            Norm{NormMode::kAddNorm, 1e-10f}, 0));
                    });
                time("l2norm", d, "as run", [&] {
                    Case const c{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), d, t};
                    Tensor const in[2] = {tensor(dx.p, d, t), tensor(dw.p, {d[1]}, Type::kFloat)};
                    CHECK(run(c.kind, c.a, in, 2, tensor(dy.p, d, t), ws.p, 0, tickets()));
                });
                for (int x : {8, 16, 32, 64})
                    for (int blocks = 1; blocks <= 8; ++blocks)
                        for (TilesPlan const& plan : {TilesPlan{blocks, x, 4, 2}, TilesPlan{blocks, x, 3, 1}})
                            if (tiles_fit(plan, t, d[1]))
                                time("l2norm tiles", d,
                                    "x " + std::to_string(x) + " blocks " + std::to_string(plan.blocks) + " stages "
                                        + std::to_string(plan.stages),
                                    [&] {
                                        CHECK(launch_l2norm_tiles(plan, t, dx.p, Scalars{dw.p, Type::kFloat}, dy.p,
                                            d[0], d[1], d[2], norm, tickets(), 0));
                                    });
            }
        if (wanted("cache")) // tensors that stay in the L2 cache
            for (Dims const& d : std::vector<Dims>{{8, 512, 1444}, {1, 512, 1444}, {8, 512, 361}, {8, 512, 49},
                {4, 512, 4096}, {2, 512, 4225}, {16, 256, 1444}, {8, 64, 16384}, {4, 1024, 1024}, {100, 32, 1024},
                     {8, 16, 65025}})
            {
                time("l2norm", d, "as run", [&] {
                    Case const c{Kind::kSurgeonL2Norm, l2(1, 1, 1e-10f), d, t};
                    Tensor const in[2] = {tensor(dx.p, d, t), tensor(dw.p, {d[1]}, Type::kFloat)};
                    CHECK(run(c.kind, c.a, in, 2, tensor(dy.p, d, t), ws.p, 0, tickets()));
                });
                ColumnsPlan const usual = plan_columns(t, d[0], d[1], d[2]);
                for (int packs : {4, 8, 16, 32})
                    for (int x : {4, 8, 11, 12, 16, 22, 32, 44, 64})
                    {
                        int const y = int(next_power_of_two(ceil_div(d[1], int64_t(packs))));
                        if (x * y < 32 || x * y > 512)
                            continue;
                        ColumnsPlan const plan{usual.pack_bytes, packs, x, y};
                        auto const go = [&] {
                            return launch_l2norm_columns(plan, t, dx.p, Scalars{dw.p, Type::kFloat}, dy.p, d[0], d[1],
                                d[2], norm, 0);
                        };
                        if (go() == cudaSuccess)
                            time("l2norm columns", d,
                                "packs " + std::to_string(packs) + " of " + std::to_string(plan.pack_bytes) + ", "
                                    + std::to_string(x) + " by " + std::to_string(y),
                                [&] { CHECK(go()); });
                        cudaGetLastError();
                    }
                for (int x : {8, 16, 32, 64})
                    for (int blocks : {1, 2, 4, 8})
                        for (TilesPlan const& plan : {TilesPlan{blocks, x, 4, 2}, TilesPlan{blocks, x, 3, 1}})
                            if (tiles_fit(plan, t, d[1]))
                                time("l2norm tiles", d,
                                    "x " + std::to_string(x) + " blocks " + std::to_string(plan.blocks) + " stages "
                                        + std::to_string(plan.stages),
                                    [&] {
                                        CHECK(launch_l2norm_tiles(plan, t, dx.p, Scalars{dw.p, Type::kFloat}, dy.p,
                                            d[0], d[1], d[2], norm, tickets(), 0));
                                    });
            }
    }
}

} // namespace

int main(int argc, char** argv)
{
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i)
    {
        std::string const word = argv[i];
        if (word == "--blocks" && i + 1 < argc)
            most_in_cluster = std::atoi(argv[++i]);
        else if (word == "--shard" && i + 1 < argc && std::sscanf(argv[i + 1], "%u/%u", &shard, &shards) == 2)
            ++i;
        else
            words.push_back(word);
    }
    std::string const mode = words.empty() ? "" : words[0];
    only = words.size() > 1 ? words[1] : "";
    bool const judged = mode == "quick" || mode == "check";
    ratio_alone = mode == "time" && words.size() > 2;
    for (size_t i = 2; ratio_alone && i < words.size(); ++i)
        if (!time_word(std::atoll(only.c_str()) << 20, words[i]))
            std::printf("%s: not a case\n", words[i].c_str());
    if (ratio_alone)
        return 0;
    if ((!judged && mode != "bench" && mode != "tune") || words.size() > 2 || shard >= shards)
    {
        std::printf("usage: kernels_test quick | check [NAME] [--shard I/N] [--blocks B], bench [NAME], "
                    "tune [pad | instance | l2norm | cache], time MB WHAT:SHAPE...\n");
        return 2;
    }
    if (!judged)
    {
        mode == "bench" ? bench(only) : tune(only);
        return 0;
    }
    mode == "quick" ? quick() : check_all();
    for (int k = 0; k < int(Kind::kCount); ++k)
        std::printf("%-20s largest error, relative to the largest output: fp32 %.2e  fp16 %.2e  bf16 %.2e\n",
            plugin_info(Kind(k)).name, worst.error[0][k], worst.error[1][k], worst.error[2][k]);
    std::printf("%d cases, %d failed\n", worst.cases, worst.failed);
    return worst.failed ? 1 : 0;
}
