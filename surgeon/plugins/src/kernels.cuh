// The plain CUDA kernels behind surgeon's TensorRT plugins. Nothing here knows of TensorRT, so they are tested alone.
//
// Conventions
//   * Pointers to tensors are 16-byte aligned (every device allocator gives more); a launcher returns
//     cudaErrorMisalignedAddress otherwise.
//   * "Vector" means the 16 bytes that one thread moves at a time: 4 floats or 8 halves.
//   * Sums and statistics are fp32 whatever the tensor's type.
//   * A launcher returns the launch's status and never synchronises; it uses only the caller's stream and workspace.
//   * Grids are sized by ceiling division: the last block is partly idle, no element is left out.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "types.h"

namespace surgeon
{

// What the launchers ask of the current device, read once per device.
struct Device
{
    int multiprocessors = 0;
    int64_t l2_bytes = 0;
    bool clusters = false;
};

inline Device const& device()
{
    constexpr int kMost = 64;
    static Device known[kMost];
    static bool read[kMost]; // set after the entry: a race writes the same values twice
    int id = 0;
    cudaGetDevice(&id);
    id = id < kMost ? id : 0;
    if (!read[id])
    {
        int sms = 0, l2 = 0, cluster = 0;
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, id);
        cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, id);
#if CUDART_VERSION >= 11080
        cudaDeviceGetAttribute(&cluster, cudaDevAttrClusterLaunch, id);
#endif
        known[id] = Device{sms, l2, cluster != 0};
        read[id] = true;
    }
    return known[id];
}

// A tensor that outgrows the L2 cache is read and written evict-first; a smaller one stays for the next layer.
inline bool streams(int64_t bytes_in_and_out)
{
    return bytes_in_and_out > device().l2_bytes;
}

inline bool aligned(void const* p)
{
    return reinterpret_cast<uintptr_t>(p) % kVectorBytes == 0;
}

// --------------------------------------------------------------------------------------------- packs of values

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T>
__device__ inline T from_float(float v);
template <>
__device__ inline float from_float<float>(float v) { return v; }
template <>
__device__ inline __half from_float<__half>(float v) { return __float2half_rn(v); }
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) { return __float2bfloat16_rn(v); }

template <int BYTES>
struct Word;
template <>
struct Word<16> { using type = uint4; };
template <>
struct Word<8> { using type = uint2; };
template <>
struct Word<4> { using type = unsigned; };
template <>
struct Word<2> { using type = unsigned short; };

// One element's bits.
template <class T>
using Bits = typename Word<sizeof(T)>::type;

// N neighbours of a tensor as they lie in memory. Kept as 32-bit words: as an array of halves every half would take a
// register of its own.
template <class T, int N>
struct Pack
{
    static constexpr int WORDS = (sizeof(T) * N + 3) / 4;
    unsigned words[WORDS];

    __device__ static Pack zeros()
    {
        Pack p;
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            p.words[i] = 0u;
        return p;
    }

    __device__ static Pack load(T const* p, bool stream)
    {
        using W = typename Word<sizeof(T) * N>::type;
        W const w = stream ? __ldcs(reinterpret_cast<W const*>(p)) : __ldg(reinterpret_cast<W const*>(p));
        Pack r;
        if constexpr (sizeof(W) < 4)
            r.words[0] = w;
        else
            memcpy(r.words, &w, sizeof w);
        return r;
    }

    __device__ void store(T* p, bool stream) const
    {
        using W = typename Word<sizeof(T) * N>::type;
        W w;
        if constexpr (sizeof(W) < 4)
            w = W(words[0]);
        else
            memcpy(&w, words, sizeof w);
        if (stream)
            __stcs(reinterpret_cast<W*>(p), w);
        else
            *reinterpret_cast<W*>(p) = w;
    }

    __device__ Bits<T> bits(int k) const
    {
        if constexpr (sizeof(T) == 4)
            return words[k];
        else
            return Bits<T>(k % 2 ? words[k / 2] >> 16 : words[k / 2]);
    }

    __device__ void set_bits(int k, Bits<T> b)
    {
        if constexpr (sizeof(T) == 4)
            words[k] = b;
        else if (k % 2)
            words[k / 2] = (words[k / 2] & 0x0000ffffu) | unsigned(b) << 16;
        else
            words[k / 2] = (words[k / 2] & 0xffff0000u) | b;
    }

    __device__ float operator[](int k) const
    {
        if constexpr (std::is_same<T, float>::value)
            return __uint_as_float(words[k]);
        else if constexpr (std::is_same<T, __half>::value)
            return __half2float(__ushort_as_half(bits(k)));
        else
            return __uint_as_float(k % 2 ? words[k / 2] & 0xffff0000u : words[k / 2] << 16);
    }

    __device__ static Pack of(float const (&f)[N])
    {
        Pack p = zeros();
        if constexpr (sizeof(T) == 4)
        {
#pragma unroll
            for (int k = 0; k < N; ++k)
                p.words[k] = __float_as_uint(f[k]);
        }
        else if constexpr (N == 1)
        {
            T const t = from_float<T>(f[0]);
            Bits<T> b;
            memcpy(&b, &t, sizeof b);
            p.words[0] = b;
        }
        else
        {
#pragma unroll
            for (int i = 0; i < WORDS; ++i)
            {
                if constexpr (std::is_same<T, __half>::value)
                {
                    __half2 const h = __floats2half2_rn(f[2 * i], f[2 * i + 1]);
                    memcpy(&p.words[i], &h, 4);
                }
                else
                {
                    __nv_bfloat162 const h = __floats2bfloat162_rn(f[2 * i], f[2 * i + 1]);
                    memcpy(&p.words[i], &h, 4);
                }
            }
        }
        return p;
    }

    // Makes the compiler forget what it derived from the words: between two passes over packed halves it would
    // otherwise keep all of them as floats too, and spill.
    __device__ void forget()
    {
        if constexpr (sizeof(T) == 2)
        {
#pragma unroll
            for (int i = 0; i < WORDS; ++i)
                asm volatile("" : "+r"(words[i]));
        }
    }
};

// The vectors, and the elements of one that sticks out of [0, elements).
template <class T>
using Vector = Pack<T, kVectorBytes / sizeof(T)>;

template <class T>
__device__ inline Vector<T> load_up_to(T const* x, int64_t e, int64_t elements, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    if (e + VEC <= elements)
        return Vector<T>::load(x + e, stream);
    Vector<T> v = Vector<T>::zeros();
#pragma unroll
    for (int k = 0; k < VEC; ++k)
        if (e + k < elements)
            v.set_bits(k, reinterpret_cast<Bits<T> const*>(x)[e + k]);
    return v;
}

template <class T>
__device__ inline void store_up_to(T* y, int64_t e, int64_t elements, Vector<T> const& v, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    if (e + VEC <= elements)
        return v.store(y + e, stream);
#pragma unroll
    for (int k = 0; k < VEC; ++k)
        if (e + k < elements)
            reinterpret_cast<Bits<T>*>(y)[e + k] = v.bits(k);
}

// Weights, scales, biases and slopes: a small array in its own type. A null pointer stands for "absent".
struct Scalars
{
    void const* data = nullptr;
    Type type = Type::kFloat;

    __device__ float at(int64_t i) const
    {
        switch (type)
        {
        case Type::kFloat: return __ldg(static_cast<float const*>(data) + i);
        case Type::kHalf: return __half2float(static_cast<__half const*>(data)[i]);
        default: return __bfloat162float(static_cast<__nv_bfloat16 const*>(data)[i]);
        }
    }
};

// ------------------------------------------------------------------------------------------------ reductions

constexpr unsigned kWholeWarp = 0xffffffffu;

// Sum over groups of `lanes` neighbouring threads (a power of two up to 32), or over the block when lanes > 32.
// Every thread of the block must call it; `scratch` holds one float2 a warp.
__device__ inline float2 sum_over_lanes(float2 v, int lanes, float2* scratch)
{
    for (int m = (lanes < 32 ? lanes : 32) / 2; m > 0; m /= 2)
    {
        v.x += __shfl_xor_sync(kWholeWarp, v.x, m);
        v.y += __shfl_xor_sync(kWholeWarp, v.y, m);
    }
    if (lanes <= 32)
        return v;
    int const warps = ceil_div(int(blockDim.x), 32), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
        scratch[warp] = v;
    __syncthreads();
    v = lane < warps ? scratch[lane] : make_float2(0.f, 0.f);
    for (int m = 16; m > 0; m /= 2)
    {
        v.x += __shfl_xor_sync(kWholeWarp, v.x, m);
        v.y += __shfl_xor_sync(kWholeWarp, v.y, m);
    }
    __syncthreads(); // the scratch may be used again
    return v;
}

// Count, mean and sum of squared deviations of a set; merged by Chan, Golub and LeVeque's update. The mean is
// mean + tail: a row of few, nearly equal values far from zero needs more of it than fp32 holds.
struct alignas(16) Moments
{
    float count, mean, m2, tail;
};

__device__ inline Moments merge(Moments const& a, Moments const& b)
{
    float const count = a.count + b.count;
    if (count == 0.f)
        return a;
    float const delta = b.mean - a.mean, share = b.count / count, step = delta * share, mean = a.mean + step;
    return Moments{count, mean, a.m2 + b.m2 + delta * step * a.count,
        (a.mean - mean) + step + a.tail + (b.tail - a.tail) * share};
}

// ----------------------------------------------------------------------------------------------- row windows

// A row of `length` elements that starts anywhere in a tensor, seen through aligned vectors: the first and the last
// vector may stick out of the row, their outside elements read as 0 and are never written.
template <class T>
struct RowWindow
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t first; // offset, in elements, of the first vector
    int lo, hi;    // the row is [lo, hi) counted from `first`

    __device__ RowWindow(int64_t start, int64_t length)
        : first(start / VEC * VEC), lo(int(start - first)), hi(int(lo + length))
    {
    }

    __device__ int vectors() const { return ceil_div(hi, VEC); }
    __device__ bool whole(int j) const { return j * VEC >= lo && j * VEC + VEC <= hi; }
    __device__ bool inside(int e) const { return e >= lo && e < hi; }

    // The vector as it lies in memory, to be trimmed once all are on their way: nothing here waits for what it reads.
    __device__ Vector<T> raw(T const* x, int j, int64_t elements, bool stream) const
    {
        return j * VEC < hi ? load_up_to(x, first + int64_t(j) * VEC, elements, stream) : Vector<T>::zeros();
    }

    __device__ void trim(int j, Vector<T>& v) const
    {
        if (whole(j))
            return;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            if (!inside(j * VEC + k))
                v.set_bits(k, 0);
    }

    __device__ void put(T* y, int j, Vector<T> const& v, bool stream) const
    {
        T* const p = y + first + int64_t(j) * VEC;
        if (whole(j))
            return v.store(p, stream);
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            if (inside(j * VEC + k))
                reinterpret_cast<Bits<T>*>(p)[k] = v.bits(k);
    }
};

// The most vectors that a row of `length` elements can touch.
inline int64_t window_vectors(int64_t length, int vec)
{
    return length % vec == 0 ? length / vec : (length + vec - 2) / vec + 1;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline unsigned cluster_size()
{
    unsigned n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}

__device__ inline unsigned cluster_rank()
{
    unsigned n;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(n));
    return n;
}

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ inline float read_remote(float const* here, unsigned rank)
{
    unsigned there;
    float f;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(unsigned(__cvta_generic_to_shared(here))), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(f) : "r"(there) : "memory");
    return f;
}
#endif

// ---------------------------------------------------------------------------------------------- staged rows

// Short rows, or rows that begin inside a vector: a block brings `blockDim.x / lanes` neighbouring rows into shared memory
// as one span of whole vectors, its groups of lanes work there, and the span goes back as whole vectors. The number of
// rows makes the span begin on a vector.
template <class T>
struct StagedRows
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    T* stage;
    int64_t first; // the span's first element
    int elements;  // of the span
    int64_t row;   // this group's
    bool live;
    RowWindow<T> window; // this group's row, counted from the span
    int lane, lanes;

    __device__ StagedRows(void* shared, int64_t rows, int length, int lanes_a_row)
        : stage(static_cast<T*>(shared)), first(0), elements(0), row(0), live(false), window(0, 0),
          lane(threadIdx.x % lanes_a_row), lanes(lanes_a_row)
    {
        int const most = blockDim.x / lanes, group = threadIdx.x / lanes;
        int64_t const first_row = int64_t(blockIdx.x) * most;
        first = first_row * length;
        elements = int(min(int64_t(most), rows - first_row)) * length;
        row = first_row + group;
        live = row < rows;
        window = RowWindow<T>(live ? group * length : 0, live ? length : 0);
    }

    __device__ void bring(T const* x) const
    {
        int const whole = elements / VEC;
        for (int j = threadIdx.x; j < whole; j += blockDim.x)
            __pipeline_memcpy_async(stage + j * VEC, x + first + j * VEC, kVectorBytes);
        __pipeline_commit();
        for (int e = whole * VEC + threadIdx.x; e < elements; e += blockDim.x)
            reinterpret_cast<Bits<T>*>(stage)[e] = reinterpret_cast<Bits<T> const*>(x)[first + e];
        __pipeline_wait_prior(0);
        __syncthreads();
    }

    // f(vector, inside): for every vector that the row touches; elements that are not inside are another row's.
    template <class F>
    __device__ void look(F const& f) const
    {
        for (int j = lane; j < window.vectors(); j += lanes)
        {
            Vector<T> const v = at(j);
            if (window.whole(j))
                f(v, [](int) { return true; });
            else
                f(v, [&](int k) { return window.inside(j * VEC + k); });
        }
    }

    // Every element of the row becomes f(value, its index in the row). All groups must have looked.
    template <class F>
    __device__ void change(F const& f) const
    {
        for (int j = lane; j < window.vectors(); j += lanes)
        {
            int const e = j * VEC - window.lo;
            T* const p = stage + window.first + j * VEC;
            if (window.whole(j))
            {
                Vector<T> const v = at(j);
                float out[VEC];
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    out[k] = f(v[k], e + k);
                Vector<T>::of(out).store(p, false);
            }
            else
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    if (window.inside(j * VEC + k))
                        p[k] = from_float<T>(f(to_float(p[k]), e + k));
        }
    }

    __device__ void take_back(T* y, bool stream) const
    {
        __syncthreads();
        int const whole = elements / VEC;
        for (int j = threadIdx.x; j < whole; j += blockDim.x)
            vector(j * VEC).store(y + first + j * VEC, stream);
        for (int e = whole * VEC + threadIdx.x; e < elements; e += blockDim.x)
            y[first + e] = stage[e];
    }

private:
    __device__ Vector<T> at(int j) const { return vector(int(window.first) + j * VEC); }

    __device__ Vector<T> vector(int element) const
    {
        uint4 const w = *reinterpret_cast<uint4 const*>(stage + element);
        Vector<T> v;
        v.words[0] = w.x, v.words[1] = w.y, v.words[2] = w.z, v.words[3] = w.w;
        return v;
    }
};

constexpr int kStagedThreads = 256;

// ---------------------------------------------------------------------------------------------------- L2Norm

enum class NormMode : int32_t
{
    kMaxNorm = 0,       // x / max(||x||, eps)
    kAddNorm = 1,       // x / (||x|| + eps)
    kMaxSum = 2,        // x / sqrt(max(sum x^2, eps))
    kAddSum = 3,        // x / sqrt(sum x^2 + eps)
    kMinReciprocal = 4, // x * min(1 / ||x||, eps)
};

struct Norm
{
    NormMode mode;
    float eps;
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float reciprocal_of(float v)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    switch (norm.mode)
    {
    case NormMode::kMaxNorm: return larger(root_of(sum), norm.eps);
    case NormMode::kAddNorm: return root_of(sum) + norm.eps;
    case NormMode::kMaxSum: return root_of(larger(sum, norm.eps));
    case NormMode::kAddSum: return root_of(sum + norm.eps);
    case NormMode::kMinReciprocal: return larger(root_of(sum), 1.f / norm.eps);
    }
    return 1.f;
}

// Whether x / d is x * (1 / d) to rounding: not where 1 / d leaves the normal range (d zero, denormal, huge, inf, NaN).
__device__ inline bool has_reciprocal(float d) { return d > 1e-37f && d < 1e37f; }

// x / d as x * factor * extra, where extra is 1 unless 1 / d leaves the normal range.
struct Scale
{
    float factor, extra;

    __device__ explicit Scale(float d)
    {
        constexpr float kUp = 18446744073709551616.f; // 2^64
        extra = has_reciprocal(d) ? 1.f : d < 1.f ? kUp : 1.f / kUp;
        factor = 1.f / (d * extra);
    }
    __device__ float operator()(float x) const { return x * factor * extra; }
};

// x is [outer, channels, inner]; a block is a tile of blockDim.x columns (each VEC neighbours of `inner`) by blockDim.y
// threads that share the channels; every thread keeps its R packs in registers, so x is read once. blockDim.x and
// blockDim.y are powers of two, and the block is at least a warp.
// Few weights are brought into shared memory while x is on its way; many are read where they are needed.
__host__ __device__ inline int kept_weights(int channels) { return channels <= 512 ? channels : 0; }

// ALONE: blockDim.y is 1, and a thread has all of its columns.
template <class T, int VEC, int R, bool ALONE>
__global__ void __launch_bounds__(512, sizeof(T) * VEC * R <= 128 ? 2 : 1)
    l2norm_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
        int64_t inner_packs, int channels, Norm norm, bool stream)
{
    extern __shared__ float shared[]; // weights [channels], sums [VEC][rows][blockDim.x], divisors and
                                      // their reciprocals [VEC][blockDim.x] each
    int const width = blockDim.x, threads = width * blockDim.y, thread = threadIdx.y * width + threadIdx.x;
    int64_t const column = int64_t(blockIdx.x) * width + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = columns >> 32 ? column / inner_packs : int64_t(unsigned(column) / unsigned(inner_packs));
    int64_t const stride = inner_packs * VEC;
    int64_t const base = outer * channels * stride + (column - outer * inner_packs) * VEC;

    Pack<T, VEC> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        v[r] = live && c < channels ? Pack<T, VEC>::load(x + base + c * stride, stream) : Pack<T, VEC>::zeros();
    }
    int const kept = kept_weights(channels);
    for (int c = thread; c < kept; c += threads)
        shared[c] = weight.data ? weight.at(c) : 1.f;
    float sum[VEC] = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = fmaf(v[r][k], v[r][k], sum[k]);

    bool multiply = true, inverted = false;
    if constexpr (ALONE)
    {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = divisor_of(sum[k], norm);
    }
    else
    {
        // The threads of a warp that share a column first, then the warps.
        for (int m = width; m < 32; m *= 2)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] += __shfl_xor_sync(kWholeWarp, sum[k], m);
        float* const sums = shared + kept;
        int const share = width < 32 ? 32 / width : 1, rows = blockDim.y / share;
        if (threadIdx.y % share == 0)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sums[(k * rows + threadIdx.y / share) * width + threadIdx.x] = sum[k];
        __syncthreads();
        // One thread a column finishes it for all.
        float* const divisors = sums + VEC * rows * width;
        float* const factors = divisors + VEC * width;
        for (int i = thread; i < VEC * width; i += threads)
        {
            float total = 0.f;
            for (int row = 0; row < rows; ++row)
                total += sums[(i / width * rows + row) * width + i % width];
            divisors[i] = divisor_of(total, norm);
            factors[i] = reciprocal_of(divisors[i]);
            multiply = multiply && has_reciprocal(divisors[i]);
        }
        multiply = inverted = __syncthreads_and(multiply);
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = (inverted ? factors : divisors)[k * width + threadIdx.x];
    }
    if (!live)
        return;
    if (!inverted)
    {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            multiply = multiply && has_reciprocal(sum[k]);
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = reciprocal_of(sum[k]);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        if (c >= channels)
            break;
        v[r].forget();
        float const w = kept ? shared[c] : weight.data ? weight.at(c) : 1.f;
        float out[VEC];
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[r][k] * sum[k] * w;
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = __fdiv_rn(v[r][k], sum[k]) * w;
        Pack<T, VEC>::of(out).store(y + base + c * stride, stream);
    }
}

// The same where tiles of whole vectors do not do: `inner` is no multiple of a vector, or the channels are so many that a
// block would hold a narrow tile only. The channels are spread over a cluster, R to a thread, blockDim.y (a multiple of
// VEC) apart: all of a thread's channels begin equally far inside a vector. A tile is `tile` columns wide; its blocks read
// a little more, so that every vector whose first element is in the tile is written whole, but at a channel's ends.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    l2norm_cluster_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t elements,
        int64_t inner, int channels, int tile, int tiles, Norm norm, bool stream)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ float shared[]; // sums [blockDim.y][VEC * pitch], this block's totals and the divisors [VEC * pitch]
    int const width = blockDim.x, pitch = width + 4, threads = width * blockDim.y; // 4: no bank conflicts below
    int const thread = threadIdx.y * width + threadIdx.x, columns = width * VEC;
    unsigned const blocks = cluster_size(), rank = cluster_rank(), at = blockIdx.x / blocks, outer = at / unsigned(tiles);
    int64_t const begin = int64_t(at - outer * tiles) * tile; // the tile's first column
    int const first_channel = int(rank) * R * blockDim.y + threadIdx.y;
    int64_t const start = (int64_t(outer) * channels + first_channel) * inner + begin;
    int const lo = int(start % VEC), mine = threadIdx.x * VEC - lo; // this thread's first column, counted from the tile's
    int64_t const from = start - lo + threadIdx.x * VEC, step = blockDim.y * inner;
    bool const wanted = begin + mine < inner;
    float* const totals = shared + blockDim.y * VEC * pitch;
    float* const divisors = totals + VEC * pitch;
    auto const cell = [&](int column) { return column % VEC * pitch + column / VEC; };

    Vector<T> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
        v[r] = wanted && first_channel + r * int(blockDim.y) < channels ? load_up_to(x, from + r * step, elements, stream)
                                                                      : Vector<T>::zeros();
    float sum[VEC] = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = fmaf(v[r][k], v[r][k], sum[k]);
        v[r].forget();
    }
#pragma unroll
    for (int k = 0; k < VEC; ++k)
        shared[(threadIdx.y * VEC + k) * pitch + threadIdx.x] = sum[k];
    __syncthreads();
    int const lo_step = int(inner % VEC);
    for (int column = thread; column < columns; column += threads)
    {
        // Where row y of the sums keeps this column: shifted by that row's lo.
        int shift = int((start - threadIdx.y * inner) % VEC);
        float total = 0.f;
        for (int row = 0; row < int(blockDim.y); ++row)
        {
            if (column + shift < columns)
                total += shared[row * VEC * pitch + cell(column + shift)];
            shift = (shift + lo_step) % VEC;
        }
        totals[cell(column)] = total;
    }
    if (blocks > 1)
    {
        cluster_arrive();
        cluster_wait();
    }
    else
        __syncthreads();
    bool multiply = true;
    int const summed = min(int64_t(lo_step ? tile + VEC - 1 : tile), inner - begin);
    for (int column = thread; column < columns; column += threads)
    {
        float total = 0.f;
        if (blocks > 1)
            for (unsigned i = 0; i < blocks; ++i)
                total += read_remote(totals + cell(column), i);
        else
            total = totals[cell(column)];
        float const d = column < summed ? divisor_of(total, norm) : 1.f;
        divisors[cell(column)] = d;
        multiply = multiply && has_reciprocal(d);
    }
    if (blocks > 1)
        cluster_arrive(); // awaited at the end: the totals must outlive the others' reads
    multiply = __syncthreads_and(multiply);
#pragma unroll
    for (int k = 0; k < VEC; ++k)
    {
        float const d = mine + k >= 0 ? divisors[cell(mine + k)] : 1.f;
        sum[k] = multiply ? reciprocal_of(d) : d;
    }
    bool const written = wanted && mine < tile && (mine >= 0 || begin == 0);
    bool const whole = mine >= 0 && begin + mine + VEC <= inner;
    if (written)
#pragma unroll
        for (int r = 0; r < R; ++r)
        {
            int const c = first_channel + r * blockDim.y;
            if (c >= channels)
                break;
            v[r].forget();
            float const w = weight.data ? weight.at(c) : 1.f;
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = (multiply ? v[r][k] * sum[k] : __fdiv_rn(v[r][k], sum[k])) * w;
            Vector<T> const result = Vector<T>::of(out);
            T* const p = y + from + r * step;
            if (whole)
                result.store(p, stream);
            else
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    if (mine + k >= 0 && begin + mine + k < inner)
                        reinterpret_cast<Bits<T>*>(p)[k] = result.bits(k);
        }
    if (blocks > 1)
        cluster_wait();
#endif
}

// More channels than the registers of a block hold: x is read twice.
template <class T>
__global__ void l2norm_long_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
    int64_t inner, int64_t channels, Norm norm)
{
    extern __shared__ float partial[]; // [blockDim.y][blockDim.x]
    int64_t const column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = column / inner, base = outer * channels * inner + (column - outer * inner);
    float sum = 0.f;
    if (live)
#pragma unroll 8
        for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
        {
            float const f = to_float(x[base + c * inner]);
            sum = fmaf(f, f, sum);
        }
    partial[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    sum = 0.f;
    for (int i = 0; i < blockDim.y; ++i)
        sum += partial[i * blockDim.x + threadIdx.x];
    if (!live)
        return;
    float const divisor = divisor_of(sum, norm);
#pragma unroll 8
    for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
    {
        float const w = weight.data ? weight.at(c) : 1.f;
        y[base + c * inner] = from_float<T>(to_float(x[base + c * inner]) / divisor * w);
    }
}

// The normalised axis is the last one: x is [rows, length], `lanes` neighbouring threads keep a row in registers.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    l2norm_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length, int lanes,
        Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int const group = threadIdx.x / lanes, lane = threadIdx.x - group * lanes;
    int64_t const row = int64_t(blockIdx.x) * (blockDim.x / lanes) + group;
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);

    Pack<T, VEC> v[R];
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < R; ++r)
        v[r] = window.raw(x, lane + r * lanes, rows * length, stream);
#pragma unroll
    for (int r = 0; r < R; ++r)
        window.trim(lane + r * lanes, v[r]);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum = fmaf(v[r][k], v[r][k], sum);
    sum = sum_over_lanes(make_float2(sum, 0.f), lanes, scratch).x;
    float const divisor = divisor_of(sum, norm);
    Scale const scale(divisor);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        if (j * VEC >= window.hi)
            break;
        v[r].forget();
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = scale(v[r][k]);
        if (weight.data)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                if (window.inside(j * VEC + k))
                    out[k] *= weight.at(j * VEC + k - window.lo);
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

template <class T>
__global__ void __launch_bounds__(kStagedThreads)
    l2norm_staged_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length,
        int lanes, Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.bring(x);
    float sum = 0.f;
    block.look([&](Vector<T> const& v, auto const& inside) {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            float const f = inside(k) ? v[k] : 0.f;
            sum = fmaf(f, f, sum);
        }
    });
    Scale const scale(divisor_of(sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x, norm));
    __syncthreads();
    if (weight.data)
        block.change([&](float f, int e) { return scale(f) * weight.at(e); });
    else
        block.change([&](float f, int) { return scale(f); });
    block.take_back(y, stream);
}

// ---------------------------------------------------------------------------------------------- InstanceNorm

struct InstanceNormParams
{
    Scalars scale, bias; // one value a channel, both or neither
    int64_t channels;
    float eps;
    float slope; // of a LeakyRelu on the result; 1 for none
};

// y = (x - mean) * gain + offset, then the slope.
struct Affine
{
    float mean, gain, offset, slope;

    __device__ Affine(InstanceNormParams const& p, int64_t row, Moments const& m)
        : mean(m.mean), gain(1.f / sqrtf(m.m2 / m.count + p.eps)), offset(0.f), slope(p.slope)
    {
        if (p.scale.data)
        {
            int64_t const c = row >> 32 ? row % p.channels : int64_t(unsigned(row) % unsigned(p.channels));
            gain *= p.scale.at(c);
            offset = p.bias.at(c);
        }
        offset -= m.tail * gain;
    }

    __device__ float operator()(float x) const
    {
        float const y = fmaf(x - mean, gain, offset);
        return y < 0.f ? y * slope : y;
    }
};

// The moments of `count` values from a rounded mean of theirs and the sums of the deviations from it and of their squares.
__device__ inline Moments corrected(float count, float mean, float2 d)
{
    float const shift = d.x / count, better = mean + shift;
    return Moments{count, better, fmaxf(d.y - d.x * shift, 0.f), (mean - better) + shift};
}

// Moments of the values that a group of lanes holds in registers: the mean first, then the deviations from it, whose own
// (tiny) sum corrects both (the corrected two-pass algorithm). `count` is the group's; every thread gets the same bits.
template <class T, int R>
__device__ inline Moments moments_of(
    Vector<T> (&v)[R], RowWindow<T> const& window, int first, int lanes, float count, float2* scratch)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        float s = 0.f;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            s += v[r][k];
        sum += s;
    }
    float const mean = sum_over_lanes(make_float2(sum, 0.f), lanes, scratch).x / count;
    float2 d = make_float2(0.f, 0.f);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = first + r * lanes;
        v[r].forget();
        if (window.whole(j))
        {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float const deviation = v[r][k] - mean;
                d.x += deviation;
                d.y = fmaf(deviation, deviation, d.y);
            }
        }
        else if (j * VEC < window.hi)
        {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float const deviation = window.inside(j * VEC + k) ? v[r][k] - mean : 0.f;
                d.x += deviation;
                d.y = fmaf(deviation, deviation, d.y);
            }
        }
    }
    return corrected(count, mean, sum_over_lanes(d, lanes, scratch));
}

// The part of a row's elements that lies in the vectors [from, to).
template <class T>
__device__ inline float elements_in(RowWindow<T> const& window, int from, int to)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const lo = max(window.lo, from * VEC), hi = min(window.hi, to * VEC);
    return hi > lo ? float(hi - lo) : 0.f;
}

template <class T>
__global__ void __launch_bounds__(kStagedThreads)
    instance_norm_staged_rows_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int length, int lanes,
        InstanceNormParams params, bool stream)
{
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.bring(x);
    int const from = int(block.window.first) + block.window.lo, own = block.live ? length : 0;
    T* const mine = block.stage + from;
    float sum = 0.f;
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
        sum += to_float(mine[e]);
    float const mean = sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x / float(length);
    float2 d = make_float2(0.f, 0.f);
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
    {
        float const deviation = to_float(mine[e]) - mean;
        d.x += deviation;
        d.y = fmaf(deviation, deviation, d.y);
    }
    Moments const m = corrected(float(length), mean, sum_over_lanes(d, lanes, nullptr));
    Affine const affine(params, block.live ? block.row : 0, m);
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
        mine[e] = from_float<T>(affine(to_float(mine[e])));
    block.take_back(y, stream);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void store_remote(Moments* slot, unsigned rank, Moments const& m)
{
    unsigned const here = unsigned(__cvta_generic_to_shared(slot));
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(m.count) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4), "f"(m.mean) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 8), "f"(m.m2) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 12), "f"(m.tail) : "memory");
}
#endif

constexpr int kMostBlocksInCluster = 8; // what every device with clusters takes

constexpr int kMostStages = 4;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline unsigned shared_address(void const* p) { return unsigned(__cvta_generic_to_shared(p)); }

__device__ inline void barrier_init(uint64_t* barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

// Announces `bytes` and starts their copy; whoever waits on the barrier sees them.
__device__ inline void bulk_load(void* to, void const* from, unsigned bytes, uint64_t* barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
    if (bytes > 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(to)),
            "l"(from), "r"(bytes), "r"(shared_address(barrier))
            : "memory");
}

__device__ inline void barrier_wait(uint64_t* barrier, unsigned parity)
{
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}
#endif

// x is [rows, length] with row = n * channels + c. A row is kept in registers by `lanes` neighbouring threads, by a
// block (lanes == blockDim.x), or, with CLUSTER, by a cluster of blocks that exchange their moments once through
// distributed shared memory. x is read once.
template <class T, int R, bool CLUSTER>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    instance_norm_rows_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int lanes,
        InstanceNormParams params, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int first = 0, per_block = 0;
    int64_t row;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ Moments parts[kMostBlocksInCluster];
    if (CLUSTER)
    {
        cluster_arrive(); // awaited before the exchange: no block writes into one that has not started
        row = blockIdx.x / cluster_size();
    }
    else
#endif
    {
        row = int64_t(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
    }
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);
    int last = window.vectors();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (CLUSTER)
    {
        per_block = ceil_div(last, int(cluster_size()));
        first = cluster_rank() * per_block;
        last = min(last, first + per_block);
    }
#endif
    int const lane = first + threadIdx.x % lanes;

    Pack<T, VEC> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        v[r] = j < last ? window.raw(x, j, rows * length, stream) : Vector<T>::zeros();
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
        window.trim(lane + r * lanes, v[r]);
    // Lanes beyond `last` hold zeros; a window that ends there keeps them out of the deviations too.
    RowWindow<T> mine = window;
    mine.hi = min(window.hi, last * VEC);
    float const count = elements_in(window, first, last);
    Moments m = moments_of<T, R>(v, mine, lane, lanes, fmaxf(count, 1.f), scratch);
    m.count = count;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (CLUSTER)
    {
        unsigned const blocks = cluster_size();
        cluster_wait();
        if (threadIdx.x < blocks)
            store_remote(parts + cluster_rank(), threadIdx.x, m);
        cluster_arrive();
        cluster_wait();
        m = parts[0];
        for (unsigned i = 1; i < blocks; ++i)
            m = merge(m, parts[i]);
    }
#endif
    if (!live)
        return;
    Affine const affine(params, row, m);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        if (j >= last)
            break;
        v[r].forget();
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = affine(v[r][k]);
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

// A block's moments as it publishes them to the others: the count is known to all, and no word is kAbsent once written.
constexpr unsigned kAbsent = 0xffffffffu; // a NaN that no arithmetic makes

__device__ inline void publish(uint4* slot, Moments const& m)
{
    auto const word = [](float f) { return isnan(f) ? 0x7fffffffu : __float_as_uint(f); };
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(word(m.mean)), "r"(word(m.m2)),
        "r"(word(m.tail)), "r"(0u)
        : "memory");
}

__device__ inline Moments await(uint4 const* slot, float count)
{
    uint4 w;
    do
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                     : "l"(slot)
                     : "memory");
    while (w.x == kAbsent || w.y == kAbsent || w.z == kAbsent);
    return Moments{count, __uint_as_float(w.x), __uint_as_float(w.y), __uint_as_float(w.z)};
}

__device__ inline Moments merge_over_warp(Moments m)
{
#pragma unroll
    for (int s = 1; s < 32; s *= 2)
        m = merge(m, Moments{__shfl_xor_sync(kWholeWarp, m.count, s), __shfl_xor_sync(kWholeWarp, m.mean, s),
                         __shfl_xor_sync(kWholeWarp, m.m2, s), __shfl_xor_sync(kWholeWarp, m.tail, s)});
    return m;
}

// Rows longer than a block holds, still read once: every row is cut into `shares` of `each` vectors, the blocks of the
// whole grid (all resident: a cooperative launch) take the shares in turn and keep them in registers, and publish a
// share's moments in `slots` [rows * shares], which were filled with kAbsent. The copy engine brings a block's next
// shares into shared memory (`stages` of them) meanwhile.
// Every block's shares are in the order of the rows and shares <= gridDim.x: the first row that is not yet complete never
// waits for a later one.
constexpr int kSharePacks = 8;

template <class T>
__global__ void __launch_bounds__(512, 2)
    instance_norm_grid_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int shares,
        int each, int stages, uint4* slots, InstanceNormParams params, bool stream)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ uint64_t arrived[kMostStages];
    __shared__ float2 scratch[32];
    __shared__ Moments by_warp[32];
    int64_t const elements = rows * length;
    unsigned const items = unsigned(rows * shares);
    int const stage_bytes = each * kVectorBytes, lanes = blockDim.x;

    auto const start = [&](unsigned item, int slot) {
        unsigned const row = item / unsigned(shares);
        RowWindow<T> const window(int64_t(row) * length, length);
        int const from = min(int(item - row * shares) * each, window.vectors()), to = min(from + each, window.vectors());
        bool const torn = window.first + int64_t(to) * VEC > elements; // the tensor's last vector is not full
        bulk_load(staged + slot * stage_bytes, x + window.first + int64_t(from) * VEC,
            unsigned(max(to - torn - from, 0)) * kVectorBytes, arrived + slot);
    };
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < stages; ++i)
            barrier_init(arrived + i);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int i = 0; i < stages && blockIdx.x + i * gridDim.x < items; ++i)
            start(blockIdx.x + i * gridDim.x, i);
    }
    __syncthreads();

    int slot = 0, parity = 0;
    for (unsigned item = blockIdx.x; item < items; item += gridDim.x)
    {
        unsigned const row = item / unsigned(shares);
        RowWindow<T> const window(int64_t(row) * length, length);
        int const from = min(int(item - row * shares) * each, window.vectors()), to = min(from + each, window.vectors());
        int const lane = from + threadIdx.x;
        bool const torn = window.first + int64_t(to) * VEC > elements;
        barrier_wait(arrived + slot, parity);
        Vector<T> v[kSharePacks];
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
        {
            int const j = lane + r * lanes;
            v[r] = Vector<T>::zeros();
            if (j < to)
            {
                uint4 const w = *reinterpret_cast<uint4 const*>(staged + slot * stage_bytes + (j - from) * kVectorBytes);
                v[r].words[0] = w.x, v[r].words[1] = w.y, v[r].words[2] = w.z, v[r].words[3] = w.w;
            }
        }
        if (torn)
#pragma unroll
            for (int r = 0; r < kSharePacks; ++r)
                if (lane + r * lanes == to - 1)
                    v[r] = load_up_to(x, window.first + int64_t(to - 1) * VEC, elements, stream);
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
            if (lane + r * lanes < to)
                window.trim(lane + r * lanes, v[r]);
        __syncthreads(); // the stage has been read
        if (threadIdx.x == 0 && item + stages * gridDim.x < items)
            start(item + stages * gridDim.x, slot);
        if (++slot == stages)
            slot = 0, parity ^= 1;

        RowWindow<T> mine = window;
        mine.hi = min(window.hi, to * VEC);
        Moments m = moments_of<T, kSharePacks>(v, mine, lane, lanes, fmaxf(elements_in(window, from, to), 1.f), scratch);
        if (threadIdx.x == 0)
            publish(slots + item, m);
        if (threadIdx.x / 32 * 32 < shares)
        {
            m = Moments{0.f, 0.f, 0.f, 0.f};
            for (int i = threadIdx.x; i < shares; i += lanes)
                m = merge(m, await(slots + int64_t(row) * shares + i, elements_in(window, i * each, i * each + each)));
            m = merge_over_warp(m);
            if (threadIdx.x % 32 == 0)
                by_warp[threadIdx.x / 32] = m;
        }
        __syncthreads();
        int const warps = min(ceil_div(shares, 32), lanes / 32);
        m = by_warp[0];
        for (int i = 1; i < warps; ++i)
            m = merge(m, by_warp[i]);
        Affine const affine(params, row, m);
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
        {
            int const j = lane + r * lanes;
            if (j >= to)
                break;
            v[r].forget();
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = affine(v[r][k]);
            window.put(y, j, Vector<T>::of(out), stream);
        }
    }
#endif
}

constexpr int kTileThreads = 512, kTilePacks = 8;
constexpr int kTileVectors = kTileThreads * kTilePacks; // 64 KiB
constexpr int kMostChunks = 1024;

// Rows too long for the chip, first pass: the moments of each chunk (a whole number of tiles) of each row.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_moments_kernel(T const* __restrict__ x, Moments* __restrict__ moments, int64_t elements,
        int64_t length, int chunks, int vectors_a_chunk)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int64_t const row = blockIdx.x / chunks;
    int const chunk = blockIdx.x - row * chunks;
    RowWindow<T> const window(row * length, length);
    int const from = chunk * vectors_a_chunk, to = min(window.vectors(), from + vectors_a_chunk);
    Moments m{0.f, 0.f, 0.f, 0.f};
    for (int tile = from; tile < to; tile += kTileVectors)
    {
        int const last = min(to, tile + kTileVectors);
        Vector<T> v[kTilePacks];
#pragma unroll
        for (int r = 0; r < kTilePacks; ++r)
        {
            int const j = tile + threadIdx.x + r * kTileThreads;
            v[r] = j < last ? window.raw(x, j, elements, false) : Vector<T>::zeros();
        }
#pragma unroll
        for (int r = 0; r < kTilePacks; ++r)
            window.trim(tile + threadIdx.x + r * kTileThreads, v[r]);
        RowWindow<T> mine = window;
        mine.hi = min(window.hi, last * VEC);
        float const count = elements_in(window, tile, last);
        m = merge(m, moments_of<T, kTilePacks>(v, mine, tile + threadIdx.x, kTileThreads, count, scratch));
    }
    if (threadIdx.x == 0)
        moments[blockIdx.x] = m;
}

// Between the passes: one warp a row merges its chunks' moments into the row's.
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    instance_norm_merge_kernel(Moments const* __restrict__ chunk_moments, Moments* __restrict__ row_moments,
        int64_t rows, int chunks)
{
    int64_t const row = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    int const lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    Moments m{0.f, 0.f, 0.f, 0.f};
    for (int i = lane; i < chunks; i += 32)
        m = merge(m, chunk_moments[row * chunks + i]);
    m = merge_over_warp(m);
    if (lane == 0)
        row_moments[row] = m;
}

// Second pass, last chunk first: what the first pass read last is still in the L2 cache.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_apply_kernel(T const* __restrict__ x, Moments const* __restrict__ row_moments, T* __restrict__ y,
        int64_t elements, int64_t length, int tiles, InstanceNormParams params)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t const block = gridDim.x - 1 - blockIdx.x, row = block / tiles;
    RowWindow<T> const window(row * length, length);
    int const first = int(block - row * tiles) * kTileVectors + threadIdx.x;
    Vector<T> v[kTilePacks];
#pragma unroll
    for (int r = 0; r < kTilePacks; ++r)
        v[r] = window.raw(x, first + r * kTileThreads, elements, true);
    Moments const m = row_moments[row];
    Affine const affine(params, row, m);
#pragma unroll
    for (int r = 0; r < kTilePacks; ++r)
    {
        int const j = first + r * kTileThreads;
        if (j * VEC >= window.hi)
            break;
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = affine(v[r][k]);
        window.put(y, j, Vector<T>::of(out), true);
    }
}

// ------------------------------------------------------------------------------------------- fast division

// Division by an invariant (Granlund and Montgomery): exact for numerators below half the type's range.
template <class U>
struct FastDiv;

template <>
struct FastDiv<uint32_t>
{
    uint32_t d = 1, m = 1;
    int shift = 0;

    FastDiv() = default;
    explicit FastDiv(uint32_t divisor) : d(divisor)
    {
        while ((uint64_t(1) << shift) < d)
            ++shift;
        m = uint32_t((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d) / d + 1);
    }
    __device__ uint32_t operator()(uint32_t n) const { return (__umulhi(n, m) + n) >> shift; }
};

template <>
struct FastDiv<uint64_t>
{
    uint64_t d = 1, m = 1;
    int shift = 0;

    FastDiv() = default;
    explicit FastDiv(uint64_t divisor) : d(divisor)
    {
        while ((static_cast<unsigned __int128>(1) << shift) < d)
            ++shift;
        m = uint64_t((static_cast<unsigned __int128>((static_cast<unsigned __int128>(1) << shift) - d) << 64) / d + 1);
    }
    __device__ uint64_t operator()(uint64_t n) const { return (__umul64hi(n, m) + n) >> shift; }
};

// ------------------------------------------------------------------------------------------------------- Pad

enum class PadMode : int32_t
{
    kReflect = 0,   // 3 2 1 | 0 1 2 3 | 2 1 0
    kSymmetric = 1, // 2 1 0 | 0 1 2 3 | 3 2 1
    kEdge = 2,      // 0 0 0 | 0 1 2 3 | 3 3 3
    kWrap = 3,      // 1 2 3 | 0 1 2 3 | 0 1 2
};

// One axis: the output index o reads the input at crop + fold(o - begin), where [0, size) is what the crops left.
// U: uint32_t where every offset is below 2^31, uint64_t beyond.
template <class U>
struct PadAxis
{
    using Index = std::make_signed_t<U>;
    FastDiv<U> out; // the output's extent
    Index begin, size, crop;
    Index stride; // the input's, in elements
};

template <class U>
struct PadGeometry
{
    using Index = std::make_signed_t<U>;
    int rank;
    PadMode mode;
    PadAxis<U> axes[kMaxRank]; // the last axis first
    U elements;                // of the output
    Index in_elements;
};

template <class I>
__device__ inline I fold(I i, I size, PadMode mode)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == PadMode::kEdge)
        return i < 0 ? 0 : size - 1;
    if (mode == PadMode::kWrap)
    {
        i = i < 0 ? i + size : i - size;
        if (i >= 0 && i < size)
            return i;
        i %= size;
        return i < 0 ? i + size : i;
    }
    bool const symmetric = mode == PadMode::kSymmetric;
    I const period = symmetric ? 2 * size : 2 * size - 2;
    if (period == 0)
        return 0; // one pixel reflects into itself
    if (i < -size || i >= period)
        i %= period;
    if (i < 0)
        i = symmetric ? -1 - i : -i;
    return i < size ? i : (symmetric ? period - 1 : period) - i;
}

// Where the input row begins that an output row is made of, its crop included.
template <class U>
__device__ inline std::make_signed_t<U> input_row(PadGeometry<U> const& g, U row)
{
    using Index = std::make_signed_t<U>;
    Index at = g.axes[0].crop;
#pragma unroll
    for (int a = 1; a < kMaxRank; ++a)
    {
        if (a >= g.rank)
            break;
        PadAxis<U> const& axis = g.axes[a];
        U const rest = axis.out(row);
        at += (axis.crop + fold(Index(row - rest * axis.out.d) - axis.begin, axis.size, g.mode)) * axis.stride;
        row = rest;
    }
    return at;
}

// The 16 bytes that begin `shift` elements into the 32 of a and b.
template <class T>
__device__ inline Vector<T> spliced(uint4 const& a, uint4 const& b, int shift)
{
    unsigned w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    int const bytes = shift * int(sizeof(T));
    if (bytes & 8)
#pragma unroll
        for (int i = 0; i < 6; ++i)
            w[i] = w[i + 2];
    if (bytes & 4)
#pragma unroll
        for (int i = 0; i < 5; ++i)
            w[i] = w[i + 1];
    if (sizeof(T) == 2 && (bytes & 2))
#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = __funnelshift_r(w[i], w[i + 1], 16);
    Vector<T> v;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v.words[i] = w[i];
    return v;
}

constexpr int kPadThreads = 256, kPadEdges = 2;

// A group of `lanes` neighbouring threads makes ROWS segments of rows of y. A segment is up to lanes * PACKS whole vectors
// of the row's interior (its part inside the cropped input), each of them two aligned loads, spliced; the first segment of
// a row also makes the elements outside them. What a row has in common is worked out once, and nothing is stored before
// all the loads are on their way.
template <class T, class U, int ROWS, int PACKS>
__global__ void __launch_bounds__(kPadThreads)
    pad_kernel(T const* __restrict__ x, T* __restrict__ y, PadGeometry<U> g, FastDiv<U> segments, U items, int lanes, bool stream)
{
    using Index = std::make_signed_t<U>;
    constexpr int VEC = kVectorBytes / sizeof(T);
    auto const* const in = reinterpret_cast<Bits<T> const*>(x);
    auto* const out = reinterpret_cast<Bits<T>*>(y);
    PadAxis<U> const& last = g.axes[0];
    U const width = last.out.d, first = (U(blockIdx.x) * (kPadThreads / lanes) + threadIdx.x / lanes) * ROWS;
    int const lane = threadIdx.x % lanes;

    uint4 low[ROWS][PACKS], high[ROWS][PACKS];
    int shift[ROWS], left[ROWS]; // left: vectors of the row from this thread's first on
    U to[ROWS];                  // that vector
    Bits<T> edges[ROWS][kPadEdges];
    U edge_to[ROWS][kPadEdges];
#pragma unroll
    for (int q = 0; q < ROWS; ++q)
    {
        U const row = segments(first + q), begin = row * width;
        bool const exists = first + q < items;
        U const from = (begin + U(last.begin) + VEC - 1) / VEC, end = (begin + U(last.begin) + U(last.size)) / VEC;
        bool const vectors = exists && end > from;
        Index const input = exists ? input_row(g, row) : 0;
        U const segment = first + q - row * segments.d;
        to[q] = from + segment * U(lanes * PACKS) + lane;
        left[q] = vectors ? int(min(Index(end) - Index(to[q]), Index(PACKS * lanes))) : 0;
        Index const at = input + Index(to[q] * VEC - begin) - last.begin, start = at & ~Index(VEC - 1);
        shift[q] = int(at - start);
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
        {
            Index const here = start + p * lanes * VEC;
            if (p * lanes >= left[q])
                continue;
            if (shift[q] != 0 && here + 2 * VEC > g.in_elements) // x's last vector has no successor
            {
                for (int k = 0; k < VEC; ++k)
                    out[(to[q] + p * lanes) * VEC + k] = in[here + shift[q] + k];
                left[q] = p * lanes;
                continue;
            }
            low[q][p] = __ldg(reinterpret_cast<uint4 const*>(x + here));
            // No branch: to fill `high` from `low` would wait for it.
            high[q][p] = __ldg(reinterpret_cast<uint4 const*>(x + here + (shift[q] ? VEC : 0)));
        }
        U const head = vectors ? from * VEC - begin : width, tail = vectors ? begin + width - end * VEC : 0;
        U const borders = exists && segment == 0 ? head + tail : 0;
        auto const column = [&](U slot) { return slot < head ? slot : width - tail + (slot - head); };
        auto const source = [&](U c) { return input + fold(Index(c) - last.begin, last.size, g.mode); };
#pragma unroll
        for (int k = 0; k < kPadEdges; ++k)
        {
            U const slot = lane + k * lanes;
            edge_to[q][k] = g.elements;
            if (slot >= borders)
                continue;
            U const c = column(slot);
            edge_to[q][k] = begin + c;
            edges[q][k] = __ldg(in + source(c));
        }
        for (U slot = lane + kPadEdges * lanes; slot < borders; slot += lanes)
            out[begin + column(slot)] = __ldg(in + source(column(slot)));
    }
#pragma unroll
    for (int q = 0; q < ROWS; ++q)
    {
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
            if (p * lanes < left[q])
                spliced<T>(low[q][p], high[q][p], shift[q]).store(y + (to[q] + p * lanes) * VEC, stream);
#pragma unroll
        for (int k = 0; k < kPadEdges; ++k)
            if (edge_to[q][k] < g.elements)
                out[edge_to[q][k]] = edges[q][k];
    }
}

// The same for a block of threads a few rows; always with 64-bit offsets.
struct PadBlocks
{
    int rank;
    PadMode mode;
    PadAxis<uint64_t> axes[kMaxRank]; // the last axis last
    int64_t in_elements;
    uint64_t rows;              // the output's, along the last axis
    int rows_a_block;           // at most kPadThreads
    int segment;                // vectors of a row that one block copies (more than one block a row: rows_a_block is 1)
    FastDiv<uint32_t> vectors;  // the most whole vectors of a row's interior, within a segment
    FastDiv<uint32_t> border;   // the most elements of a row outside them
};

// 16 bytes from any element offset of an aligned tensor; false where that would read past the tensor's end.
template <class T>
__device__ inline bool load_anywhere(T const* x, int64_t at, int64_t elements, Vector<T>& v)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const shift = int(at % VEC);
    int64_t const first = at - shift;
    if (shift == 0)
    {
        v = Vector<T>::load(x + first, false);
        return true;
    }
    if (first + 2 * VEC > elements)
        return false;
    uint4 const a = __ldg(reinterpret_cast<uint4 const*>(x + first));
    uint4 const b = __ldg(reinterpret_cast<uint4 const*>(x + first + VEC));
    v = spliced<T>(a, b, shift);
    return true;
}

// What the threads of a block share of a row of the output, whose interior is its part inside the (cropped) input.
struct PadRow
{
    int64_t input;  // where the cropped row begins in x
    int64_t vector; // the first whole vector of the interior, of y
    int vectors;    // how many; 0: the whole row is border
    int head, tail; // elements of the row before the first and after the last of them
};

// Four-byte elements. The whole vectors of the rows' interiors are copied as vectors (y's are aligned, x's start anywhere); the elements
// before and after them are spread over the block.
template <class T>
__global__ void __launch_bounds__(kPadThreads)
    pad_blocks_kernel(T const* __restrict__ x, T* __restrict__ y, PadBlocks g, bool stream)
{
    constexpr unsigned VEC = kVectorBytes / sizeof(T), UNROLL = 4;
    __shared__ PadRow shared[kPadThreads];
    PadAxis<uint64_t> const& last = g.axes[g.rank - 1];
    uint64_t const first_row = uint64_t(blockIdx.x) * g.rows_a_block;
    int const rows = int(min(uint64_t(g.rows_a_block), g.rows - first_row));
    uint64_t const width = last.out.d;
    if (threadIdx.x < rows)
    {
        uint64_t row = first_row + threadIdx.x;
        uint64_t const begin = row * width, from = (begin + last.begin + VEC - 1) / VEC,
                       to = (begin + last.begin + last.size) / VEC;
        PadRow mine;
        mine.input = last.crop;
        mine.vector = int64_t(from);
        mine.vectors = to > from ? int(to - from) : 0;
        mine.head = mine.vectors ? int(from * VEC - begin) : int(width);
        mine.tail = mine.vectors ? int(begin + width - to * VEC) : 0;
#pragma unroll
        for (int a = kMaxRank - 2; a >= 0; --a)
        {
            if (a > g.rank - 2)
                continue;
            PadAxis<uint64_t> const& axis = g.axes[a];
            uint64_t const rest = axis.out(row);
            mine.input
                += (axis.crop + fold(int64_t(row - rest * axis.out.d) - axis.begin, axis.size, g.mode)) * axis.stride;
            row = rest;
        }
        shared[threadIdx.x] = mine;
    }
    __syncthreads();

    int const skipped = blockIdx.y * g.segment;
    unsigned const vectors = rows * g.vectors.d;
    for (unsigned i = threadIdx.x; i < vectors; i += UNROLL * kPadThreads)
    {
        Vector<T> v[UNROLL];
        int64_t to[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
        {
            unsigned const item = i + u * kPadThreads, r = g.vectors(item);
            to[u] = -1;
            if (item >= vectors)
                continue;
            PadRow const& row = shared[r];
            int const j = skipped + int(item - r * g.vectors.d);
            if (j >= row.vectors)
                continue;
            int64_t const at = row.input + row.head - last.begin + int64_t(j) * VEC;
            to[u] = (row.vector + j) * VEC;
            if (load_anywhere(x, at, g.in_elements, v[u]))
                continue;
            for (unsigned k = 0; k < VEC; ++k) // x's last vector, beyond which there is nothing to read
                y[to[u] + k] = x[at + k];
            to[u] = -1;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            if (to[u] >= 0)
                v[u].store(y + to[u], stream);
    }
    unsigned const borders = blockIdx.y == 0 ? rows * g.border.d : 0;
    for (unsigned i = threadIdx.x; i < borders; i += kPadThreads)
    {
        unsigned const r = g.border(i);
        int const slot = int(i - r * g.border.d);
        PadRow const& row = shared[r];
        if (slot >= row.head + row.tail)
            continue;
        int64_t const column = slot < row.head ? int64_t(slot) : int64_t(width) - row.tail + (slot - row.head);
        y[int64_t(first_row + r) * int64_t(width) + column]
            = x[row.input + fold(column - last.begin, last.size, g.mode)];
    }
}

// -------------------------------------------------------------------------------------- LeakyRelu and PRelu

template <class T, int PACKS>
__global__ void __launch_bounds__(256)
    leaky_relu_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t elements, float alpha, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t const first = (int64_t(blockIdx.x) * PACKS * blockDim.x + threadIdx.x) * VEC;
    Vector<T> v[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        v[p] = load_up_to(x, first + int64_t(p) * blockDim.x * VEC, elements, stream);
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
    {
        int64_t const e = first + int64_t(p) * blockDim.x * VEC;
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            float const f = v[p][k];
            out[k] = f < 0.f ? f * alpha : f;
        }
        store_up_to(y, e, elements, Vector<T>::of(out), stream);
    }
}

// Where an element of x finds its slope: x's extents, and the slope's strides, 0 where it is broadcast.
struct SlopeGeometry
{
    int rank;
    FastDiv<uint64_t> extents[kMaxRank];
    FastDiv<uint32_t> extents32[kMaxRank];
    int64_t strides[kMaxRank];

    __device__ int64_t at(uint64_t e, bool small) const
    {
        int64_t offset = 0;
#pragma unroll
        for (int a = kMaxRank - 1; a >= 0; --a)
        {
            if (a >= rank)
                continue;
            uint64_t const rest = small ? uint64_t(extents32[a](uint32_t(e))) : extents[a](e);
            offset += int64_t(e - rest * extents[a].d) * strides[a];
            e = rest;
        }
        return offset;
    }
};

template <class T, int PACKS>
__global__ void __launch_bounds__(256)
    prelu_kernel(T const* __restrict__ x, Scalars slope, T* __restrict__ y, int64_t elements, SlopeGeometry g, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    bool const small = elements < (int64_t(1) << 31);
    int64_t const first = (int64_t(blockIdx.x) * PACKS * blockDim.x + threadIdx.x) * VEC;
    uint64_t const inner = g.extents[g.rank - 1].d;
    int64_t const step = g.strides[g.rank - 1];
    Vector<T> v[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        v[p] = load_up_to(x, first + int64_t(p) * blockDim.x * VEC, elements, stream);
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
    {
        int64_t const e = first + int64_t(p) * blockDim.x * VEC;
        if (e >= elements)
            break;
        uint64_t const row
            = small ? uint64_t(g.extents32[g.rank - 1](uint32_t(e))) : g.extents[g.rank - 1](uint64_t(e));
        bool const one_row = uint64_t(e) - row * inner + VEC <= inner;
        int64_t const base = g.at(e, small);
        float s = slope.at(base), out[VEC] = {};
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            if (e + k >= elements)
                break;
            if (k > 0 && !(one_row && step == 0))
                s = slope.at(one_row ? base + k * step : g.at(e + k, small));
            float const f = v[p][k];
            out[k] = f < 0.f ? f * s : f;
        }
        store_up_to(y, e, elements, Vector<T>::of(out), stream);
    }
}

} // namespace surgeon
