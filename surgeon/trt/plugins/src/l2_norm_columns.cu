#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

// In tensors that stay in the L2 cache all multiprocessors have as many blocks, which are no narrower than need be.
int even_width(int64_t columns, int y, int pack)
{
    constexpr int kBytes = 128, kFewBytes = 64, kMostBlocks = 4, kThreads = 512, kWarp = 32;
    int const multiprocessors = std::max(device().multiprocessors, 1);
    for (int blocks = kMostBlocks; blocks > 1; --blocks)
    {
        int const x = int(ceil_div(columns, int64_t(multiprocessors * blocks)));
        if (x * pack >= kBytes && x * y >= kWarp && x * y <= kThreads && x * y * blocks <= 2 * kThreads)
            return x;
    }
    int64_t const x = ceil_div(columns, int64_t(multiprocessors));
    return int(std::min<int64_t>(std::max<int64_t>(x, std::max(kFewBytes / pack, kWarp / y)), kThreads / y));
}

} // namespace

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner)
{
    int const element = int(size_of(type));
    int pack = kVectorBytes;
    while (pack > element && (inner * element) % pack != 0)
        pack = pack == 16 ? 8 : element;
    bool const wide = pack == kVectorBytes;
    int const usual = wide ? 8 : 16, most = wide ? 16 : 32, crowded = wide ? 64 : 16;
    int packs = int(std::min<int64_t>(next_power_of_two(channels), usual));
    int y = int(next_power_of_two(ceil_div(channels, int64_t(packs))));
    if (y > crowded && packs < most)
    {
        packs *= 2;
        y /= 2;
    }
    if (y > 1 && y <= 256 && !streams(2 * outer * channels * inner * element))
    {
        int64_t const columns = outer * inner * element / pack;
        int const x = even_width(columns, y, pack);
        bool const few = columns <= x * device().multiprocessors && 2 * x * y <= 256; // blocks, threads
        return few && packs > usual ? ColumnsPlan{pack, packs / 2, x, 2 * y} : ColumnsPlan{pack, packs, x, y};
    }
    // Small blocks where all are resident at once: some write while others still read.
    bool const one_wave = outer * inner * element / pack * y <= int64_t(device().multiprocessors) * 1024;
    int const threads = y == 1 ? 256 : y > 8 ? 512 : one_wave ? 64 : 128;
    return ColumnsPlan{pack, packs, std::max(threads / y, 1), y};
}

namespace
{

template <class T, int VEC, int R, bool ALONE>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    int64_t const columns = outer * inner / VEC, blocks = ceil_div(columns, int64_t(plan.x));
    size_t const sums = ALONE ? 0 : size_t(plan.x) * (plan.y + 2) * VEC;
    size_t const shared = (size_t(kept_weights(int(channels))) + sums) * sizeof(float);
    return launch_kernel(l2norm_columns_kernel<T, VEC, R, ALONE>, blocks, dim3(plan.x, plan.y), shared, on, x,
        weight, y, columns, inner / VEC, int(channels), norm, stream);
}

// Only the combinations that plan_columns() makes are compiled.
template <class T, int VEC>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    constexpr bool WIDE = VEC * sizeof(T) == kVectorBytes;
    auto const go = [&](auto packs, auto alone) {
        return launch_columns<T, VEC, decltype(packs)::value, decltype(alone)::value>(
            plan, x, weight, y, outer, channels, inner, norm, stream, on);
    };
    bool const alone = plan.y == 1;
    std::integral_constant<int, 8> const eight{};
    std::integral_constant<int, 16> const sixteen{};
    switch (plan.packs)
    {
    case 1: return alone ? go(std::integral_constant<int, 1>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 2: return alone ? go(std::integral_constant<int, 2>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 4: return alone ? go(std::integral_constant<int, 4>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 8:
        if constexpr (WIDE)
            return alone ? go(eight, std::true_type{}) : go(eight, std::false_type{});
        else
            return alone ? go(eight, std::true_type{}) : cudaErrorInvalidValue;
    case 16:
        if constexpr (WIDE)
            return go(sixteen, std::false_type{});
        else
            return alone ? go(sixteen, std::true_type{}) : go(sixteen, std::false_type{});
    case 32:
        if constexpr (!WIDE)
            return go(std::integral_constant<int, 32>{}, std::false_type{});
    }
    return cudaErrorInvalidValue;
}

template <class T>
cudaError_t launch_long_columns(T const* x, Scalars weight, T* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, cudaStream_t on)
{
    dim3 const block = inner == 1 ? dim3(1, 512) : dim3(32, 16);
    int64_t const columns = outer * inner, blocks = ceil_div(columns, int64_t(block.x));
    return launch_kernel(l2norm_long_columns_kernel<T>, blocks, block, block.x * block.y * sizeof(float), on,
        x, weight, y, columns, inner, channels, norm);
}

} // namespace

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (plan.packs == 0)
            return launch_long_columns<T>(in, weight, out, outer, channels, inner, norm, on);
        switch (plan.pack_bytes / sizeof(T))
        {
        case 1: return launch_columns<T, 1>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 8 / sizeof(T):
            return launch_columns<T, 8 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 16 / sizeof(T):
            return launch_columns<T, 16 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace surgeon
