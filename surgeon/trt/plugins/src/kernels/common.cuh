// What the kernels share: the device, packs of values, reductions, windows on rows, clusters and bulk copies, staged
// rows, fast division. The conventions are in kernels.cuh.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../types.h"

#if CUDART_VERSION < 12000
struct CUtensorMap
{
};
#endif

namespace surgeon
{

constexpr int kSectorBytes = 32, kLineBytes = 128; // of memory, and of the L2 cache

// Bulk copies and st.async: Hopper, and a compiler that knows them.
constexpr bool kStAsync = CUDART_VERSION >= 12010;

// What the launchers ask of the current device, read once per device.
struct Device
{
    int multiprocessors = 0;
    int64_t l2_bytes = 0, shared_bytes = 0; // shared_bytes: of a multiprocessor
    bool clusters = false;
    bool early = false; // a kernel may begin while the one before it ends, in a graph, too
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
        int sms = 0, l2 = 0, shared = 0, cluster = 0, driver = 0;
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, id);
        cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, id);
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, id);
#if CUDART_VERSION >= 11080
        cudaDeviceGetAttribute(&cluster, cudaDevAttrClusterLaunch, id);
#endif
        cudaDriverGetVersion(&driver);
        known[id] = Device{sms, l2, shared, cluster != 0, cluster != 0 && kStAsync && driver >= 12030};
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

// Within one unit in the last place.
__device__ inline float reciprocal_of(float v)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

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

    __device__ static Pack of_shared(T const* p)
    {
        Pack r;
        if constexpr (sizeof(T) * N < 4)
            r.words[0] = *reinterpret_cast<Bits<T> const*>(p);
        else
            memcpy(r.words, __builtin_assume_aligned(p, sizeof(T) * N), sizeof r.words);
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

// The N of p's [0, count) from i on, wherever that is; anything for those outside.
template <int N, class W>
__device__ inline void neighbours(W const* p, int i, int count, float (&out)[N])
{
    constexpr int PER = kVectorBytes / sizeof(W), VECTORS = ceil_div(N, PER);
    int const shift = i & (PER - 1), first = i - shift, vectors = shift > 0 ? VECTORS + 1 : VECTORS;
    if (first + vectors * PER > count || reinterpret_cast<uintptr_t>(p) % kVectorBytes != 0)
    {
#pragma unroll
        for (int k = 0; k < N; ++k)
            out[k] = i + k >= 0 && i + k < count ? to_float(p[i + k]) : 0.f;
        return;
    }
    uint4 v[VECTORS + 1];
#pragma unroll
    for (int j = 0; j <= VECTORS; ++j)
        v[j] = j < vectors ? __ldg(reinterpret_cast<uint4 const*>(p + max(first + j * PER, 0))) : uint4{};
#pragma unroll
    for (int j = 0; j < VECTORS; ++j)
    {
        Vector<W> const a = spliced<W>(v[j], v[j + 1], shift);
#pragma unroll
        for (int k = 0; k < PER && j * PER + k < N; ++k)
            out[j * PER + k] = a[k];
    }
}

// The same of weights, which are fp32 or of x's type.
template <class T, int N>
__device__ inline void neighbours(Scalars const& from, int i, int count, float (&out)[N])
{
    if (from.type == Type::kFloat)
        neighbours(static_cast<float const*>(from.data), i, count, out);
    else
        neighbours(static_cast<T const*>(from.data), i, count, out);
}

// ------------------------------------------------------------------------------------------------ reductions

constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ inline int smallest_of_warp(int v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kWholeWarp, v);
#else
    for (int m = 16; m > 0; m /= 2)
        v = min(v, __shfl_xor_sync(kWholeWarp, v, m));
    return v;
#endif
}

// Sums over the whole warp.
__device__ inline float warp_sum(float v)
{
#pragma unroll
    for (int m = 16; m > 0; m /= 2)
        v += __shfl_xor_sync(kWholeWarp, v, m);
    return v;
}

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

    __device__ RowWindow(int64_t from, int begin, int end) : first(from), lo(begin), hi(end) {}

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

// -------------------------------------------------------------------------------------- clusters, bulk copies

constexpr int kMostBlocksInCluster = 8; // what every device with clusters takes

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && CUDART_VERSION >= 12010
#define SURGEON_DEVICE_HAS_ST_ASYNC 1
#else
#define SURGEON_DEVICE_HAS_ST_ASYNC 0
#endif

// Until what is before this kernel in its stream has ended: launch_kernel() lets it begin earlier.
__device__ inline void await_predecessors()
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// x as [a thread's channels][elements], each channel x again, so many elements on as they are apart, so that one tensor
// copy brings a piece of all of them: for threads that have as many channels as any, and for those with one less.
struct ChannelMaps
{
    CUtensorMap full, less;
};

#if SURGEON_DEVICE_HAS_ST_ASYNC
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

__device__ inline unsigned shared_address(void const* p) { return unsigned(__cvta_generic_to_shared(p)); }

// Complete when so many threads have arrived and all announced bytes are there.
__device__ inline void barrier_init(uint64_t* barrier, unsigned arrivals = 1)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// What the L2 cache should do with a bulk copy's lines: see streams().
__device__ inline uint64_t cache_policy(bool stream)
{
    uint64_t first, normal;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    return stream ? first : normal;
}

__device__ inline void bulk_announce(unsigned bytes, uint64_t* barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// A copy of announced bytes.
__device__ inline void bulk_load(void* to, void const* from, unsigned bytes, uint64_t* barrier, uint64_t policy)
{
    if (bytes > 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                     " [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
            "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
            : "memory");
}

// A box of announced bytes, from where in a tensor of two axes, the inner one first; zeros outside of the tensor.
__device__ inline void tensor_load(void* to, CUtensorMap const* map, int x, int y, uint64_t* barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
        "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
        : "memory");
}

// The writes to `from` must have been followed by fence.proxy.async in their threads, and by a barrier.
__device__ inline void bulk_store_part(void* to, void const* from, unsigned bytes, uint64_t policy)
{
    if (bytes > 0)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
            "r"(shared_address(from)), "r"(bytes), "l"(policy)
            : "memory");
}

// The parts since the last end are one store.
__device__ inline void bulk_stores_end() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

__device__ inline void bulk_store(void* to, void const* from, unsigned bytes, uint64_t policy)
{
    bulk_store_part(to, from, bytes, policy);
    bulk_stores_end();
}

// Until all stores of this thread have read their shared memory.
__device__ inline void bulk_stores_have_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__device__ inline void bulk_stores_but_one_have_read() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

// The address that `here` has in another block of the cluster.
__device__ inline unsigned address_in(unsigned rank, void const* here)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(here)), "r"(rank));
    return there;
}

// Stores f in another block of the cluster and counts its bytes on that block's barrier, where they must have been
// announced; both are named by their counterparts here.
__device__ inline void send_remote(float* here, float f, uint64_t* barrier, unsigned rank)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                     address_in(rank, here)),
        "f"(f), "r"(address_in(rank, barrier))
        : "memory");
}

__device__ inline void send_remote(float4* here, float4 f, uint64_t* barrier, unsigned rank)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     address_in(rank, here)),
        "f"(f.x), "f"(f.y), "f"(f.z), "f"(f.w), "r"(address_in(rank, barrier))
        : "memory");
}

__device__ inline void barrier_arrive(uint64_t* barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
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

// A block's stages, used one after the other, and the phase of their barriers.
struct Ring
{
    unsigned phase = 0;
    int stage = 0;

    __device__ void advance(int stages)
    {
        if (++stage < stages)
            return;
        stage = 0;
        phase ^= 1;
    }
};

// ---------------------------------------------------------------------------------------------- staged rows

// Neighbouring rows that a block works on in shared memory: they come and go as one span of whole vectors, which begins
// on one. Bulk copies instead cost 0.02 of a copy.
template <class T>
struct StagedSpan
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    T* stage;
    int64_t first; // the span's first element
    int elements;

    // The block's `a_block` of `rows` rows, or as many as are left.
    __device__ StagedSpan(void* shared, int64_t rows, int length, int a_block)
        : stage(static_cast<T*>(shared)), first(int64_t(blockIdx.x) * a_block * length),
          elements(int(min(int64_t(a_block), rows - int64_t(blockIdx.x) * a_block)) * length)
    {
    }

    __device__ StagedSpan(T* at, int64_t from, int count) : stage(at), first(from), elements(count) {}

    // Only await() waits for it: what comes beside is asked for between the two.
    __device__ void ask_for(T const* x) const
    {
        int const whole = elements / VEC;
        for (int j = threadIdx.x; j < whole; j += blockDim.x)
            __pipeline_memcpy_async(stage + j * VEC, x + first + j * VEC, kVectorBytes);
        __pipeline_commit();
        for (int e = whole * VEC + threadIdx.x; e < elements; e += blockDim.x)
            reinterpret_cast<Bits<T>*>(stage)[e] = reinterpret_cast<Bits<T> const*>(x)[first + e];
    }

    __device__ void await() const
    {
        __pipeline_wait_prior(0);
        __syncthreads();
    }

    __device__ void take_back(T* y, bool stream) const
    {
        __syncthreads();
        store(y, stream);
    }

    __device__ void store(T* y, bool stream) const
    {
        int const whole = elements / VEC;
        for (int j = threadIdx.x; j < whole; j += blockDim.x)
            Vector<T>::of_shared(stage + j * VEC).store(y + first + j * VEC, stream);
        for (int e = whole * VEC + threadIdx.x; e < elements; e += blockDim.x)
            y[first + e] = stage[e];
    }
};

// Rows so short that a thread takes several at once: a period, the fewest that fill whole vectors.
template <class T, int N>
struct Period
{
    using Element = T;
    static constexpr int LENGTH = N, VEC = kVectorBytes / sizeof(T);
    static constexpr int COMMON = std::gcd(LENGTH, VEC);
    static constexpr int VECTORS = LENGTH / COMMON, ROWS = VEC / COMMON;
    static constexpr int A_THREAD = ceil_div(4, VECTORS); // periods, of four vectors or more
    static constexpr int THREADS = VECTORS > 16 ? 64 : 128;

    SURGEON_BOTH static int rows_of(int threads) { return threads * A_THREAD * ROWS; }
};

// Staged rows by groups of `lanes` threads.
template <class T>
struct StagedRows : StagedSpan<T>
{
    int start; // the group's row's first element in the stage
    int length;
    int64_t row; // the group's
    bool live;
    int lane, lanes;

    __device__ StagedRows(void* shared, int64_t rows, int a_row, int lanes_a_row)
        : StagedSpan<T>(shared, rows, a_row, blockDim.x / lanes_a_row), length(a_row), lane(threadIdx.x % lanes_a_row),
          lanes(lanes_a_row)
    {
        int const group = threadIdx.x / lanes;
        start = group * length;
        row = int64_t(blockIdx.x) * (blockDim.x / lanes) + group;
        live = row < rows;
    }

    // Of the shared memory, where the room of a whole block's rows ends.
    __device__ void* behind() const
    {
        constexpr int VEC = StagedSpan<T>::VEC;
        return this->stage + ceil_div(int(blockDim.x) / lanes * length, VEC) * VEC;
    }
};

constexpr int kMostStagedThreads = 256;

template <class T, class F>
__device__ inline void change_one(StagedRows<T> const& block, int at, F const& f)
{
    float out[1] = {to_float(block.stage[at])};
    f(out, at - block.start);
    block.stage[at] = from_float<T>(out[0]);
}

// A thread's staged row as 32-bit words; of an odd number of halves, one shares its word with a neighbouring row. With
// TURN every row begins at another of its words, where rows would meet in the same banks otherwise.
template <class T, bool TURN>
struct RowWords
{
    static constexpr bool VECTORS = false;
    static constexpr int PER = 4 / sizeof(T);
    using Word = Pack<T, PER>;
    StagedRows<T> const& block;
    int first, begin, end;
    int at; // the single element's place in the stage, -1 where there is none

    __device__ explicit RowWords(StagedRows<T> const& rows) : block(rows)
    {
        first = block.live ? ceil_div(block.start, PER) : 0;
        end = block.live ? (block.start + block.length) / PER : 0;
        begin = TURN && end > first ? first + int(threadIdx.x) % (end - first) : first;
        bool const single = block.length % PER != 0 && block.live;
        at = !single ? -1 : block.start % PER ? block.start : block.start + block.length - 1;
    }

    // f(value) for the single element, then f for those of every word.
    template <class F>
    __device__ void look(F const& f) const
    {
        if (at >= 0)
            f(to_float(block.stage[at]));
        each([&](int, Word const& v) {
#pragma unroll
            for (int k = 0; k < PER; ++k)
                f(v[k]);
        });
    }

    // f(values, the first one's index in the row) changes some neighbours.
    template <class F>
    __device__ void change(F const& f) const
    {
        if (at >= 0)
            change_one(block, at, f);
        each([&](int w, Word const& v) {
            float out[PER];
#pragma unroll
            for (int k = 0; k < PER; ++k)
                out[k] = v[k];
            f(out, w * PER - block.start);
            reinterpret_cast<unsigned*>(block.stage)[w] = Word::of(out).words[0];
        });
    }

private:
    template <class F>
    __device__ void each(F const& f) const
    {
        int w = begin;
#pragma unroll 8
        for (int i = first; i < end; ++i)
        {
            Word v;
            v.words[0] = reinterpret_cast<unsigned const*>(block.stage)[w];
            f(w, v);
            ++w;
            if (TURN && w >= end)
                w = first;
        }
    }
};

template <class T>
using PlainWords = RowWords<T, false>;
template <class T>
using TurningWords = RowWords<T, true>;

// A group's staged row as vectors: 8 neighbouring lanes find theirs in different banks, whatever the length. Of the
// elements before and after the whole vectors each lane has one at most, so there must be as many lanes as a vector has
// elements.
template <class T>
struct RowVectors
{
    static constexpr bool VECTORS = true;
    static constexpr int VEC = kVectorBytes / sizeof(T);
    StagedRows<T> const& block;
    int first, end;    // the lane's first vector, the end of the row's
    int before, after; // places of the lane's single elements in the stage, -1 for none

    __device__ explicit RowVectors(StagedRows<T> const& rows) : block(rows)
    {
        int const stop = block.start + block.length, from = ceil_div(block.start, VEC), to = stop / VEC,
                  head = block.start + block.lane, tail = to * VEC + block.lane;
        first = from + block.lane;
        end = block.live ? to : 0;
        before = block.live && head < from * VEC ? head : -1;
        after = block.live && tail < stop ? tail : -1;
    }

    // f(value, its index in the row) for the lane's elements.
    template <class F>
    __device__ void look(F const& f) const
    {
        for (int at : {before, after})
            if (at >= 0)
                f(to_float(block.stage[at]));
        each([&](int, Vector<T> const& v) {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                f(v[k]);
        });
    }

    // f(values, the first one's index in the row) changes some neighbours.
    template <class F>
    __device__ void change(F const& f) const
    {
        for (int at : {before, after})
            if (at >= 0)
                change_one(block, at, f);
        each([&](int e, Vector<T> const& v) {
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[k];
            f(out, e - block.start);
            Vector<T>::of(out).store(block.stage + e, false);
        });
    }

private:
    // Not unrolled: lanes with a vector more than others would keep them waiting for the rest of an unrolled loop.
    template <class F>
    __device__ void each(F const& f) const
    {
#pragma unroll 1
        for (int j = first; j < end; j += block.lanes)
            f(j * VEC, Vector<T>::of_shared(block.stage + j * VEC));
    }
};

// ------------------------------------------------------------------------------------------- fast division

// Division by an invariant (Granlund and Montgomery): exact for numerators below half the type's range.
template <class U>
struct FastDiv
{
    using Wide = std::conditional_t<sizeof(U) == 4, uint64_t, unsigned __int128>;
    U d = 1, m = 1;
    int shift = 0;

    FastDiv() = default;
    explicit FastDiv(U divisor) : d(divisor)
    {
        while ((Wide(1) << shift) < d)
            ++shift;
        m = U((((Wide(1) << shift) - d) << 8 * sizeof(U)) / d + 1);
    }
    __device__ U operator()(U n) const
    {
        if constexpr (sizeof(U) == 4)
            return (__umulhi(n, m) + n) >> shift;
        else
            return (__umul64hi(n, m) + n) >> shift;
    }
};

} // namespace surgeon
