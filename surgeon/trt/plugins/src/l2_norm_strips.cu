#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

int64_t weights_bytes(int64_t channels)
{
    return ceil_div(channels, int64_t(kStripsAtOnce)) * kStripsAtOnce * int64_t(sizeof(float));
}

int64_t strips_bytes(StripsPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int const size = int(size_of(type)), room = strip_room(int(channels), strip_pitch(plan.width, inner, size), size);
    return int64_t(plan.stages) * room * size + weights_bytes(channels);
}

// The kernel of REST or more channels after the last kStripsAtOnce.
template <int REST, class T>
cudaError_t launch(StripsPlan const& plan, Type type, void const* x, Scalars weight, void* y, ChannelStrips const& g,
    Norm norm, unsigned* tickets, cudaStream_t on)
{
    if constexpr (REST + 1 < kStripsAtOnce)
        if (g.channels % kStripsAtOnce > REST)
            return launch<REST + 1, T>(plan, type, x, weight, y, g, norm, tickets, on);
    return launch_resident(l2norm_strips_kernel<T, REST>, 1, plan.threads + kStripMovers,
        strips_bytes(plan, type, g.channels, g.inner), g.items, on, static_cast<T const*>(x), weight,
        static_cast<T*>(y), g, norm, tickets);
}

} // namespace

bool strips_fit(StripsPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return kStAsync && device().clusters && plan.width > 0 && plan.width <= inner && plan.stages <= kMostStripStages
        && plan.threads + kStripMovers <= most_strip_threads(int(size_of(type)))
        && strips_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// Four stages that fill the shared memory of a multiprocessor, of one block or, where pieces are long, of two; so many
// threads that few have no column.
StripsPlan plan_strips(Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kStages = 4, kLong = 3072, kShort = 512;
    int64_t const size = size_of(type), sector = kSectorBytes / size, of_thread = 4 / size,
                  most_threads = type == Type::kFloat ? 896 : 640; // that a multiprocessor has the registers for
    auto const bytes_of_piece = [&](int64_t blocks) {
        int64_t const of_block = device().shared_bytes / blocks - kReservedOfBlock - weights_bytes(channels);
        return (of_block / kStages - 2 * kLineBytes) / channels;
    };
    int64_t const blocks = bytes_of_piece(2) >= kLong ? 2 : 1, bytes = bytes_of_piece(blocks);
    if (bytes < kShort)
        return StripsPlan{0, 0, 0};
    int64_t const widest = bytes / size - 3 * sector - kLineBytes / size,
                  most = strip_pitch(widest, inner, int(size)) - 3 * sector,
                  width = ceil_div(inner, ceil_div(inner, most));
    int64_t const words = ceil_div(width + sector, of_thread), rounds = ceil_div(words, most_threads / blocks);
    StripsPlan const plan{int(width), int(kStages), int(ceil_div(ceil_div(words, rounds), int64_t(32)) * 32)};
    return strips_fit(plan, type, channels, inner) ? plan : StripsPlan{0, 0, 0};
}

cudaError_t launch_l2norm_strips(StripsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    int64_t const strips = ceil_div(inner, int64_t(std::max(plan.width, 1)));
    if (!strips_fit(plan, type, channels, inner) || inner >= (int64_t(1) << 30) || outer * strips > kMostBlocks)
        return cudaErrorInvalidValue;
    ChannelStrips const g{outer * channels * inner, inner, unsigned(outer * strips), unsigned(strips),
        FastDiv<uint32_t>(uint32_t(strips)), int(channels), plan.width, plan.stages,
        strip_pitch(plan.width, inner, int(size_of(type)))};
    return with_type(type, [&](auto tag) {
        return launch<0, typename decltype(tag)::type>(plan, type, x, weight, y, g, norm, tickets, on);
    });
}

} // namespace surgeon
