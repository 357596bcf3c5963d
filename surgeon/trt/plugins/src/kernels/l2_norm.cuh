// L2Norm along one axis: what its mappings share.
#pragma once

#include "common.cuh"

namespace surgeon
{

enum class NormMode : int32_t
{
    kMaxNorm = 0,       // x / max(||x||, eps)
    kAddNorm = 1,       // x / (||x|| + eps)
    kMaxSum = 2,        // x / sqrt(max(sum x^2, eps))
    kAddSum = 3,        // x / sqrt(sum x^2 + eps)
    kMinReciprocal = 4, // x * min(1 / ||x||, eps)
};

constexpr float kLeastSum = 1e-30f, kMostSum = 1e30f;

// The divisor is max(sqrt(max(sum, lowest_sum) + added_sum), lowest_norm) + added_norm.
// Every mode sets one of the four.
struct Norm
{
    float lowest_sum = 0.f, added_sum = 0.f, lowest_norm = 0.f, added_norm = 0.f;
    bool moderate; // from sums between kLeastSum and kMostSum, no step leaves the normal numbers

    Norm(NormMode mode, float eps) : moderate(eps >= 0.f)
    {
        switch (mode)
        {
        case NormMode::kMaxNorm: lowest_norm = eps; break;
        case NormMode::kAddNorm: added_norm = eps; break;
        case NormMode::kMaxSum: lowest_sum = eps; break;
        case NormMode::kAddSum: added_sum = eps; break;
        case NormMode::kMinReciprocal: lowest_norm = 1.f / eps; break;
        }
        for (float f : {lowest_sum, added_sum, lowest_norm, added_norm})
            moderate = moderate && f < kMostSum;
    }
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    return larger(root_of(larger(sum, norm.lowest_sum) + norm.added_sum), norm.lowest_norm) + norm.added_norm;
}

__device__ inline bool is_moderate(float sum) { return sum > kLeastSum && sum < kMostSum; }

// 1 / divisor_of(sum) of moderate sums: without the care that numbers near the ends of the range need.
__device__ inline float moderate_factor(float sum, Norm const& norm)
{
    float root, factor;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaxf(sum, norm.lowest_sum) + norm.added_sum));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(fmaxf(root, norm.lowest_norm) + norm.added_norm));
    return factor;
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
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(d * extra)); // of a normal number, 0, inf or NaN
    }
    __device__ float operator()(float x) const { return x * factor * extra; }
};

// Weights in shared memory, kept as W, beside rows of which lanes have neighbouring vectors. Their 32-bit words with
// one place in a vector are neighbours, so that lanes read neighbours wherever in a vector rows begin; where all begin
// with one they stay together by four, which a lane reads at once.
template <class T, class W>
struct VectorWeights
{
    static constexpr int VEC = kVectorBytes / sizeof(T), PER = 4 / sizeof(W), WORDS = VEC / PER, QUAD = 4;
    unsigned* const words;
    int const stride; // vectors that there is room for
    bool const whole; // all rows begin with a vector

    // Where the words of a vector's weights are found, less the vector's number. Halves may begin inside a word.
    struct Places
    {
        static constexpr int COUNT = WORDS + PER - 1;
        int at[COUNT];
        int shift; // bits
    };

    // Those of some vectors, from the weight `first` on, which may lie before the first; anything for those outside.
    __device__ void fill(Scalars const& from, int first, int vectors, int count, int thread, int threads) const
    {
        for (int j = thread; j < vectors; j += threads)
        {
            float some[VEC];
            neighbours<T>(from, first + j * VEC, count, some);
            auto const kept = Pack<W, VEC>::of(some);
#pragma unroll
            for (int i = 0; i < WORDS; ++i)
                words[place(j * WORDS + i)] = kept.words[i];
        }
    }

    // Of a row whose vector 0 has the weights from `first` on, not before the first.
    __device__ Places find(int first) const
    {
        int const word = int(unsigned(first) / PER);
        Places p;
        p.shift = int(unsigned(first) % PER * 8 * sizeof(W));
        if (whole)
#pragma unroll
            for (int i = 0; i < WORDS; i += QUAD)
                p.at[i] = place(word + i) / QUAD;
        else
#pragma unroll
            for (int i = 0; i < Places::COUNT; ++i)
                p.at[i] = place(word + i);
        return p;
    }

    // The vector j's, where all rows begin with a vector, and where they need not.
    __device__ void weigh_whole(float (&values)[VEC], int j, Places const& p) const
    {
#pragma unroll
        for (int i = 0; i < WORDS; i += QUAD)
        {
            auto const w = Pack<W, QUAD * PER>::of_shared(reinterpret_cast<W const*>(words + (p.at[i] + j) * QUAD));
#pragma unroll
            for (int k = 0; k < QUAD * PER; ++k)
                values[i * PER + k] *= w[k];
        }
    }

    __device__ void weigh_any(float (&values)[VEC], int j, Places const& p) const
    {
        Pack<W, VEC> w;
        unsigned next = words[p.at[0] + j];
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
        {
            w.words[i] = next;
            if (i + 1 < Places::COUNT)
                next = words[p.at[i + 1] + j];
            if (PER > 1)
                w.words[i] = __funnelshift_r(w.words[i], next, p.shift);
        }
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            values[k] *= w[k];
    }

    // That of one element.
    __device__ float at(int e) const
    {
        Pack<W, PER> w;
        w.words[0] = words[place(e / PER)];
        return PER == 1 || e % PER == 0 ? w[0] : w[PER - 1];
    }

private:
    __device__ int place(int word) const
    {
        unsigned const in = unsigned(word) % WORDS, vector = unsigned(word) / WORDS;
        return whole ? (in / QUAD * stride + vector) * QUAD + in % QUAD : in * stride + vector;
    }
};

// The elements whose bits are set.
template <class T>
__device__ inline void store_inside(T* p, Vector<T> const& v, unsigned inside)
{
    constexpr int VEC = kVectorBytes / sizeof(T), PER_WORD = 4 / sizeof(T);
    auto* const words = reinterpret_cast<unsigned*>(p);
#pragma unroll
    for (int i = 0; i < Vector<T>::WORDS; ++i)
    {
        unsigned const of_word = inside >> i * PER_WORD & ((1u << PER_WORD) - 1);
        if (of_word == (1u << PER_WORD) - 1)
            words[i] = v.words[i];
        else
#pragma unroll
            for (int k = i * PER_WORD; k < (i + 1) * PER_WORD && k < VEC; ++k)
                if (inside >> k & 1)
                    reinterpret_cast<Bits<T>*>(p)[k] = v.bits(k);
    }
}

#if SURGEON_DEVICE_HAS_ST_ASYNC
// One instruction: beside stores of single elements to the same place the compiler would make it four, and it would
// branch around what makes the vector.
template <class T>
__device__ inline void store_whole(T* p, Vector<T> const& v, bool does = true)
{
    asm volatile("{.reg .pred does; setp.ne.b32 does, %5, 0; @does st.global.v4.b32 [%0], {%1, %2, %3, %4};}" ::"l"(p),
        "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3]), "r"(int(does))
        : "memory");
}

// A span of a tensor in a stage of shared memory, where it begins at the same place inside a line as in memory:
// elsewhere bulk copies take longer, 0.87 of a copy where this has 0.97. Moved by a warp.
template <class T>
struct StageSpan
{
    static constexpr int VEC = kVectorBytes / sizeof(T), LINE = kLineBytes / sizeof(T);
    int64_t base;   // the element that the stage begins with
    int begin, end; // of the span, in the stage

    __device__ StageSpan(int64_t from, int64_t to)
        : base(from / LINE * LINE), begin(int(from - base)), end(int(to - base))
    {
    }

    // The vectors around it. Every lane arrives at the barrier.
    __device__ void load(T* stage, T const* x, int64_t elements, int lane, uint64_t* barrier, uint64_t policy) const
    {
        int const first = begin / VEC * VEC, all = ceil_div(end, VEC) * VEC;
        int const whole = all > elements - base ? all - VEC : all; // the tensor's last vector may be cut
        if (whole + lane < end)
            stage[whole + lane] = x[base + whole + lane];
        if (lane > 0)
            return barrier_arrive(barrier);
        unsigned const bytes = unsigned((whole - first) * int(sizeof(T)));
        bulk_announce(bytes, barrier);
        bulk_load(stage + first, x + base + first, bytes, barrier, policy);
    }

    // Until the stage has been read.
    __device__ void store(T const* stage, T* y, int lane, uint64_t policy) const
    {
        int const first = min(ceil_div(begin, VEC) * VEC, end), last = max(end / VEC * VEC, first);
        if (begin + lane < first)
            y[base + begin + lane] = stage[begin + lane];
        if (last + lane < end)
            y[base + last + lane] = stage[last + lane];
        if (lane == 0)
        {
            bulk_store(y + base + first, stage + first, unsigned((last - first) * int(sizeof(T))), policy);
            bulk_stores_have_read();
        }
        __syncwarp();
    }
};
#endif

// Elements of a stage for spans of so many.
template <class T>
__host__ __device__ constexpr int stage_room(int elements)
{
    return (ceil_div(elements, int(kLineBytes / sizeof(T))) + 1) * int(kLineBytes / sizeof(T));
}

} // namespace surgeon
