// What lies between and behind the two stages that contract.json describes; C++17, no dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace two_stages {

// Durations in frames (pred_dur; 0 behind the text) -> for each frame the index of its token.
// Frame f of "en" is row index[f] of "d", frame f of "asr" is column index[f] of "t_en"; as a matrix of tokens x
// frames to multiply with, it holds 1 at (index[f], f) and 0 elsewhere.
inline std::vector<std::int64_t> alignment(const std::vector<std::int64_t>& durations) {
    std::vector<std::int64_t> index;
    for (std::size_t token = 0; token < durations.size(); ++token) {
        if (durations[token] < 0) throw std::invalid_argument("a duration is negative");
        index.insert(index.end(), static_cast<std::size_t>(durations[token]), static_cast<std::int64_t>(token));
    }
    return index;
}

// Rooms of the buckets in frames, in any order -> the smallest with room for so many frames.
inline std::int64_t bucket(const std::vector<std::int64_t>& rooms, std::int64_t frames) {
    std::int64_t smallest = -1;
    for (const std::int64_t room : rooms) {
        if (frames <= room && (smallest < 0 || room < smallest)) smallest = room;
    }
    if (smallest < 0) throw std::out_of_range(std::to_string(frames) + " frames have no room; cut the text");
    return smallest;
}

// The decoder's audio, as long as its bucket -> the samples that are valid.
inline std::vector<float> trimmed(const std::vector<float>& audio, std::int64_t frames,
                                  std::int64_t samples_per_frame = 600) {
    const std::int64_t samples = frames * samples_per_frame;
    if (samples < 0 || samples > static_cast<std::int64_t>(audio.size())) {
        throw std::invalid_argument("the audio is shorter than its frames");
    }
    return std::vector<float>(audio.begin(), audio.begin() + samples);
}

}  // namespace two_stages
