/* Written by strategies/contents/native_header.py; contents.h includes it. */

WF_NATIVE(wf_native_0) {
    WF_GIVEN;
    wf_windowed(filling, places, base, image, lane, lanes, ~0u, 0);
}

WF_NATIVE(wf_native_1) {
    WF_NUMBERS(1);
    wf_windowed(filling, places, base, image, lane, lanes, 0, k[0]);
}

WF_NATIVE(wf_native_2) {
    WF_NUMBERS(1);
    wf_windowed(filling, places, base, image, lane, lanes, k[0], 0);
}

WF_NATIVE(wf_native_3) {
    WF_NUMBERS(10);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[2], k[3]);
    const uint32_t v2 = (v1 + k[4]);
    const uint32_t v3 = (v0 ^ v2);
    const uint32_t v4 = (v0 ^ v3);
    const uint32_t v5 = ((uint32_t)(v4 == k[5]));
    const uint32_t v6 = (v4 ^ k[6]);
    const uint32_t v7 = (v5 ? k[7] : v6);
    const uint32_t v8 = (v0 ^ v7);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v9 = (e.beside(line, v0) | k[9]);
        e.put(line, v8, (e.beside(line, v8) & k[8]));
        e.put(line, v0, v9);
        e.put(line, v3, v9);
    });
}

WF_NATIVE(wf_native_4) {
    WF_NUMBERS(11);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_looked_up(g, k[2], k[3], v0);
    const uint32_t v2 = wf_drawn(g, k[4], k[5]);
    const uint32_t v3 = (v2 - k[6]);
    const uint32_t v4 = (v3 - k[7]);
    const uint32_t v5 = wf_looked_up(g, k[8], k[9], v4);
    const uint32_t v6 = (v0 ? v5 : k[10]);
    wf_windowed(filling, places, base, image, lane, lanes, v1, v6);
}

WF_NATIVE(wf_native_5) {
    WF_NUMBERS(13);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (v0 + k[2]);
    const uint32_t v2 = wf_drawn(g, k[3], k[4]);
    const uint32_t v3 = (v2 + k[5]);
    const uint32_t v4 = (v1 - v3);
    const uint32_t v5 = (v4 - k[6]);
    const uint32_t v6 = (v5 + k[7]);
    const uint32_t v7 = ((uint32_t)((int32_t)v6 >> (k[8] & 31)));
    const uint32_t v8 = (v7 - k[9]);
    const uint32_t v9 = wf_looked_up(g, k[10], k[11], v8);
    wf_windowed(filling, places, base, image, lane, lanes, k[12], v9);
}

WF_NATIVE(wf_native_6) {
    WF_NUMBERS(13);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[2], k[3]);
    const uint32_t v2 = (v1 + k[4]);
    const uint32_t v3 = (v0 ^ v2);
    const uint32_t v4 = (v0 ^ v3);
    const uint32_t v5 = ((uint32_t)(v4 == k[5]));
    const uint32_t v6 = (v4 ^ k[6]);
    const uint32_t v7 = (v5 ? k[7] : v6);
    const uint32_t v8 = (v0 ^ v7);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v9 = (e.beside(line, v0) | k[9]);
        e.put(line, v8, (e.beside(line, v8) & k[8]));
        e.put(line, v0, v9);
        e.put(line, v3, (((k[10] - v9) & k[11]) & k[12]));
    });
}

WF_NATIVE(wf_native_7) {
    WF_NUMBERS(13);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[2], k[3]);
    const uint32_t v2 = (v1 - k[4]);
    const uint32_t v3 = (v2 - k[5]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[6] & 31)));
    const uint32_t v5 = (v3 - v4);
    const uint32_t v6 = (v5 - k[7]);
    const uint32_t v7 = wf_looked_up(g, k[8], k[9], v6);
    const uint32_t v8 = wf_drawn(g, k[10], k[11]);
    const uint32_t v9 = (v8 + k[12]);
    const uint32_t v10 = (v0 ^ v9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        e.put(line, v0, v7);
        e.put(line, v10, v7);
    });
}

WF_NATIVE(wf_native_8) {
    WF_NUMBERS(14);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[3], k[4]);
    const uint32_t v2 = (v1 + k[5]);
    const uint32_t v3 = (v2 + k[6]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[7] & 31)));
    const uint32_t v5 = (v4 - k[8]);
    const uint32_t v6 = wf_looked_up(g, k[9], k[10], v5);
    const uint32_t v8 = wf_drawn(g, k[11], k[12]);
    const uint32_t v9 = (v8 + k[13]);
    const uint32_t v10 = (v0 ^ v9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v7 = ((e.beside(line, v0) & k[2]) + v6);
        e.put(line, v0, v7);
        e.put(line, v10, v7);
    });
}

WF_NATIVE(wf_native_9) {
    WF_NUMBERS(14);
    const uint32_t v0 = wf_drawn(g, k[1], k[2]);
    const uint32_t v1 = (v0 - k[3]);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        const uint32_t v2 = wf_drawn(g, (e.position() + k[4]), k[5]);
        const uint32_t v3 = (v1 - (v2 & k[6]));
        return ((e.noise() & k[0]) + wf_looked_up(g, k[12], k[13], ((v3 - ((((uint32_t)((int32_t)v3 >> (k[7] & 31))) + (((uint32_t)((int32_t)v2 >> (k[8] & 31))) & k[9])) - k[10])) - k[11])));
    });
}

WF_NATIVE(wf_native_10) {
    WF_NUMBERS(14);
    const uint32_t v0 = wf_drawn(g, k[1], k[2]);
    const uint32_t v1 = (v0 - k[3]);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        const uint32_t v2 = wf_drawn(g, (e.position() + k[4]), k[5]);
        return ((e.noise() & k[0]) + wf_looked_up(g, k[12], k[13], (((((uint32_t)((int32_t)(v1 - (v2 & k[6])) >> (k[7] & 31))) + (((uint32_t)((int32_t)v2 >> (k[8] & 31))) & k[9])) - k[10]) - k[11])));
    });
}

WF_NATIVE(wf_native_11) {
    WF_NUMBERS(15);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[3], k[4]);
    const uint32_t v2 = (v1 + k[5]);
    const uint32_t v3 = (v2 + k[6]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[7] & 31)));
    const uint32_t v5 = (v4 - k[8]);
    const uint32_t v6 = wf_looked_up(g, k[9], k[10], v5);
    const uint32_t v8 = wf_drawn(g, k[11], k[12]);
    const uint32_t v9 = (v8 + k[13]);
    const uint32_t v10 = (v0 ^ v9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v7 = ((e.beside(line, v0) & k[2]) + v6);
        e.put(line, v0, v7);
        e.put(line, v10, (v7 ^ k[14]));
    });
}

WF_NATIVE(wf_native_12) {
    WF_NUMBERS(15);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[3], k[4]);
    const uint32_t v2 = (v1 + k[5]);
    const uint32_t v3 = (v2 + k[6]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[7] & 31)));
    const uint32_t v5 = (v4 - k[8]);
    const uint32_t v6 = wf_looked_up(g, k[9], k[10], v5);
    const uint32_t v8 = wf_drawn(g, k[12], k[13]);
    const uint32_t v9 = (v8 + k[14]);
    const uint32_t v10 = (v0 ^ v9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v7 = (((e.beside(line, v0) & k[2]) + v6) | k[11]);
        e.put(line, v0, v7);
        e.put(line, v10, v7);
    });
}

WF_NATIVE(wf_native_13) {
    WF_NUMBERS(15);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_looked_up(g, k[2], k[3], v0);
    const uint32_t v2 = wf_drawn(g, k[4], k[5]);
    const uint32_t v3 = (v2 + k[6]);
    const uint32_t v4 = wf_drawn(g, k[7], k[8]);
    const uint32_t v5 = (v4 + k[9]);
    const uint32_t v6 = (v3 - v5);
    const uint32_t v7 = (v6 - k[10]);
    const uint32_t v8 = (v7 - k[11]);
    const uint32_t v9 = wf_looked_up(g, k[12], k[13], v8);
    const uint32_t v10 = (v0 ? v9 : k[14]);
    wf_windowed(filling, places, base, image, lane, lanes, v1, v10);
}

WF_NATIVE(wf_native_14) {
    WF_NUMBERS(16);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[3], k[4]);
    const uint32_t v2 = (v1 + k[5]);
    const uint32_t v3 = (v2 + k[6]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[7] & 31)));
    const uint32_t v5 = (v4 - k[8]);
    const uint32_t v6 = wf_looked_up(g, k[9], k[10], v5);
    const uint32_t v8 = wf_drawn(g, k[12], k[13]);
    const uint32_t v9 = (v8 + k[14]);
    const uint32_t v10 = (v0 ^ v9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v7 = (((e.beside(line, v0) & k[2]) + v6) | k[11]);
        e.put(line, v0, v7);
        e.put(line, v10, (v7 ^ k[15]));
    });
}

WF_NATIVE(wf_native_15) {
    WF_NUMBERS(17);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = ((uint32_t)((int32_t)v0 >> (k[2] & 31)));
    const uint32_t v2 = (v0 & k[3]);
    const uint32_t v3 = wf_drawn(g, k[4], k[5]);
    const uint32_t v4 = wf_looked_up(g, k[6], k[7], v3);
    const uint32_t v5 = wf_drawn(g, k[8], k[9]);
    const uint32_t v6 = wf_drawn(g, k[10], k[11]);
    const uint32_t v7 = wf_drawn(g, k[12], k[13]);
    const uint32_t v8 = (v7 & k[14]);
    const uint32_t v9 = wf_looked_up(g, k[15], k[16], v8);
    wf_alone(g, [&](const auto &e) {
        e.put(v1, v2, v4);
        e.put(v5, v6, v9);
    });
}

WF_NATIVE(wf_native_16) {
    WF_NUMBERS(19);
    const uint32_t v1 = wf_drawn(g, k[4], k[5]);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v0 = (e.beside(line, k[0]) & k[1]);
        const uint32_t v2 = (line + v1);
        const uint32_t v3 = ((e.beside(line, k[2]) & k[3]) + wf_looked_up(g, k[11], k[12], (((v2 - ((((uint32_t)((int32_t)v2 < (int32_t)k[6])) ^ k[7]) * k[8])) - k[9]) - k[10])));
        e.put(line, v0, v3);
        e.put(line, (v0 ^ (((uint32_t)((int32_t)((e.beside(line, k[13]) & k[14]) * k[15]) >> (k[16] & 31))) + k[17])), (v3 ^ k[18]));
    });
}

WF_NATIVE(wf_native_17) {
    WF_NUMBERS(2);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return (((e.line() * k[0]) + e.position()) << (k[1] & 31));
    });
}

WF_NATIVE(wf_native_18) {
    WF_NUMBERS(2);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((e.noise() & k[0]) * k[1]);
    });
}

WF_NATIVE(wf_native_19) {
    WF_NUMBERS(2);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return (k[1] << ((e.noise() & k[0]) & 31));
    });
}

WF_NATIVE(wf_native_20) {
    WF_NUMBERS(2);
    wf_windowed(filling, places, base, image, lane, lanes, k[0], k[1]);
}

WF_NATIVE(wf_native_21) {
    WF_NUMBERS(24);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_drawn(g, k[4], k[5]);
    const uint32_t v2 = (v1 - k[6]);
    const uint32_t v3 = (v2 - k[7]);
    const uint32_t v4 = ((uint32_t)((int32_t)v3 >> (k[8] & 31)));
    const uint32_t v5 = (v4 - k[9]);
    const uint32_t v6 = wf_looked_up(g, k[10], k[11], v5);
    const uint32_t v7 = wf_drawn(g, k[12], k[13]);
    const uint32_t v8 = (v7 + k[14]);
    const uint32_t v9 = (v0 ^ v8);
    const uint32_t v11 = (v4 - k[17]);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v10 = e.beside(line, k[15]);
        e.put(line, v0, ((e.beside(line, k[2]) & k[3]) | v6));
        e.put(line, v9, (((v10 & k[16]) | wf_looked_up(g, k[21], k[22], ((v11 - ((v10 >> (k[18] & 31)) & k[19])) - k[20]))) * (v10 & k[23])));
    });
}

WF_NATIVE(wf_native_22) {
    WF_NUMBERS(28);
    const uint32_t v1 = wf_drawn(g, k[4], k[5]);
    const uint32_t v2 = (v1 - k[6]);
    const uint32_t v3 = wf_looked_up(g, k[7], k[8], v2);
    const uint32_t v7 = (v1 - k[22]);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v0 = (e.beside(line, k[0]) & k[1]);
        const uint32_t v4 = ((e.beside(line, k[2]) & k[3]) + v3);
        const uint32_t v5 = (((uint32_t)((int32_t)((e.beside(line, k[9]) & k[10]) * k[11]) >> (k[12] & 31))) + k[13]);
        const uint32_t v6 = e.beside(line, k[18]);
        e.put(line, v0, v4);
        e.put(line, (v0 ^ v5), (v4 ^ k[14]));
        e.put(line, (v0 ^ (((uint32_t)(v5 == k[15])) ? k[17] : (v5 ^ k[16]))), ((((v6 & k[19]) * k[20]) & k[21]) | wf_looked_up(g, k[26], k[27], ((v7 - ((v6 >> (k[23] & 31)) & k[24])) - k[25]))));
    });
}

WF_NATIVE(wf_native_23) {
    WF_NUMBERS(3);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        const uint32_t v0 = e.noise();
        return (v0 ^ (((uint32_t)((v0 & k[0]) == k[1])) << (k[2] & 31)));
    });
}

WF_NATIVE(wf_native_24) {
    WF_NUMBERS(3);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((e.beside(e.line(), k[0]) & k[1]) + k[2]);
    });
}

WF_NATIVE(wf_native_25) {
    WF_NUMBERS(3);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return wf_looked_up(g, k[1], k[2], (e.noise() & k[0]));
    });
}

WF_NATIVE(wf_native_26) {
    WF_NUMBERS(4);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        e.put(line, ((line ^ v0) & k[2]), k[3]);
    });
}

WF_NATIVE(wf_native_27) {
    WF_NUMBERS(4);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((((e.noise() & k[0]) - k[1]) & k[2]) & k[3]);
    });
}

WF_NATIVE(wf_native_28) {
    WF_NUMBERS(48);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = ((uint32_t)((int32_t)v0 >> (k[2] & 31)));
    const uint32_t v2 = (v0 & k[3]);
    const uint32_t v3 = wf_drawn(g, k[4], k[5]);
    const uint32_t v4 = wf_looked_up(g, k[6], k[7], v3);
    const uint32_t v5 = wf_drawn(g, k[8], k[9]);
    const uint32_t v6 = ((uint32_t)((int32_t)v5 >> (k[10] & 31)));
    const uint32_t v7 = (v5 & k[11]);
    const uint32_t v8 = wf_drawn(g, k[12], k[13]);
    const uint32_t v9 = wf_looked_up(g, k[14], k[15], v8);
    const uint32_t v10 = wf_drawn(g, k[16], k[17]);
    const uint32_t v11 = ((uint32_t)((int32_t)v10 >> (k[18] & 31)));
    const uint32_t v12 = (v10 & k[19]);
    const uint32_t v13 = wf_drawn(g, k[20], k[21]);
    const uint32_t v14 = wf_looked_up(g, k[22], k[23], v13);
    const uint32_t v15 = wf_drawn(g, k[24], k[25]);
    const uint32_t v16 = ((uint32_t)((int32_t)v15 >> (k[26] & 31)));
    const uint32_t v17 = (v15 & k[27]);
    const uint32_t v18 = wf_drawn(g, k[28], k[29]);
    const uint32_t v19 = wf_looked_up(g, k[30], k[31], v18);
    const uint32_t v20 = wf_drawn(g, k[32], k[33]);
    const uint32_t v21 = ((uint32_t)((int32_t)v20 >> (k[34] & 31)));
    const uint32_t v22 = (v20 & k[35]);
    const uint32_t v23 = wf_drawn(g, k[36], k[37]);
    const uint32_t v24 = wf_looked_up(g, k[38], k[39], v23);
    const uint32_t v25 = wf_drawn(g, k[40], k[41]);
    const uint32_t v26 = ((uint32_t)((int32_t)v25 >> (k[42] & 31)));
    const uint32_t v27 = (v25 & k[43]);
    const uint32_t v28 = wf_drawn(g, k[44], k[45]);
    const uint32_t v29 = wf_looked_up(g, k[46], k[47], v28);
    wf_alone(g, [&](const auto &e) {
        e.put(v1, v2, v4);
        e.put(v6, v7, v9);
        e.put(v11, v12, v14);
        e.put(v16, v17, v19);
        e.put(v21, v22, v24);
        e.put(v26, v27, v29);
    });
}

WF_NATIVE(wf_native_29) {
    WF_NUMBERS(5);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = ((uint32_t)(v0 == k[2]));
    const uint32_t v2 = (v1 ? k[3] : k[4]);
    wf_windowed(filling, places, base, image, lane, lanes, v2, 0);
}

WF_NATIVE(wf_native_30) {
    WF_NUMBERS(5);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        const uint32_t v0 = (e.line() & k[0]);
        return ((e.noise() & wf_looked_up(g, k[1], k[2], v0)) + wf_looked_up(g, k[3], k[4], v0));
    });
}

WF_NATIVE(wf_native_31) {
    WF_NUMBERS(5);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        const uint32_t v0 = e.noise();
        return (((v0 & k[0]) + k[1]) | (((v0 >> (k[2] & 31)) & k[3]) * k[4]));
    });
}

WF_NATIVE(wf_native_32) {
    WF_NUMBERS(5);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return (((((e.noise() & k[0]) - k[1]) & k[2]) & k[3]) | k[4]);
    });
}

WF_NATIVE(wf_native_33) {
    WF_NUMBERS(5);
    wf_each_sum(g, k[0], [&](uint32_t sum) {
        const uint32_t v0 = sum;
        return (v0 ^ (((uint32_t)((v0 & k[2]) == k[3])) << (k[4] & 31)));
    });
}

WF_NATIVE(wf_native_34) {
    WF_NUMBERS(54);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = ((uint32_t)((int32_t)v0 >> (k[2] & 31)));
    const uint32_t v2 = (v0 & k[3]);
    const uint32_t v3 = wf_drawn(g, k[4], k[5]);
    const uint32_t v4 = (v3 & k[6]);
    const uint32_t v5 = wf_looked_up(g, k[7], k[8], v4);
    const uint32_t v6 = wf_drawn(g, k[9], k[10]);
    const uint32_t v7 = ((uint32_t)((int32_t)v6 >> (k[11] & 31)));
    const uint32_t v8 = (v6 & k[12]);
    const uint32_t v9 = wf_drawn(g, k[13], k[14]);
    const uint32_t v10 = (v9 & k[15]);
    const uint32_t v11 = wf_looked_up(g, k[16], k[17], v10);
    const uint32_t v12 = wf_drawn(g, k[18], k[19]);
    const uint32_t v13 = ((uint32_t)((int32_t)v12 >> (k[20] & 31)));
    const uint32_t v14 = (v12 & k[21]);
    const uint32_t v15 = wf_drawn(g, k[22], k[23]);
    const uint32_t v16 = (v15 & k[24]);
    const uint32_t v17 = wf_looked_up(g, k[25], k[26], v16);
    const uint32_t v18 = wf_drawn(g, k[27], k[28]);
    const uint32_t v19 = ((uint32_t)((int32_t)v18 >> (k[29] & 31)));
    const uint32_t v20 = (v18 & k[30]);
    const uint32_t v21 = wf_drawn(g, k[31], k[32]);
    const uint32_t v22 = (v21 & k[33]);
    const uint32_t v23 = wf_looked_up(g, k[34], k[35], v22);
    const uint32_t v24 = wf_drawn(g, k[36], k[37]);
    const uint32_t v25 = ((uint32_t)((int32_t)v24 >> (k[38] & 31)));
    const uint32_t v26 = (v24 & k[39]);
    const uint32_t v27 = wf_drawn(g, k[40], k[41]);
    const uint32_t v28 = (v27 & k[42]);
    const uint32_t v29 = wf_looked_up(g, k[43], k[44], v28);
    const uint32_t v30 = wf_drawn(g, k[45], k[46]);
    const uint32_t v31 = ((uint32_t)((int32_t)v30 >> (k[47] & 31)));
    const uint32_t v32 = (v30 & k[48]);
    const uint32_t v33 = wf_drawn(g, k[49], k[50]);
    const uint32_t v34 = (v33 & k[51]);
    const uint32_t v35 = wf_looked_up(g, k[52], k[53], v34);
    wf_alone(g, [&](const auto &e) {
        e.put(v1, v2, v5);
        e.put(v7, v8, v11);
        e.put(v13, v14, v17);
        e.put(v19, v20, v23);
        e.put(v25, v26, v29);
        e.put(v31, v32, v35);
    });
}

WF_NATIVE(wf_native_35) {
    WF_NUMBERS(6);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (v0 + k[2]);
    const uint32_t v2 = (v1 - k[3]);
    const uint32_t v3 = wf_looked_up(g, k[4], k[5], v2);
    wf_windowed(filling, places, base, image, lane, lanes, 0, v3);
}

WF_NATIVE(wf_native_36) {
    WF_NUMBERS(6);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = wf_looked_up(g, k[2], k[3], v0);
    const uint32_t v2 = wf_looked_up(g, k[4], k[5], v0);
    wf_windowed(filling, places, base, image, lane, lanes, v1, v2);
}

WF_NATIVE(wf_native_37) {
    WF_NUMBERS(6);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v2 = wf_drawn(g, k[3], k[4]);
    const uint32_t v3 = (v2 + k[5]);
    const uint32_t v4 = (v0 ^ v3);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v1 = (e.beside(line, v0) | k[2]);
        e.put(line, v0, v1);
        e.put(line, v4, v1);
    });
}

WF_NATIVE(wf_native_38) {
    WF_NUMBERS(6);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return (((uint32_t)((int32_t)((e.beside(e.line(), ((e.position() - k[0]) & k[1])) ^ k[2]) - k[3]) >> ((e.noise() & k[4]) & 31))) & k[5]);
    });
}

WF_NATIVE(wf_native_39) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (k[2] - v0);
    const uint32_t v2 = wf_looked_up(g, k[3], k[4], v1);
    const uint32_t v3 = wf_looked_up(g, k[5], k[6], v1);
    wf_windowed(filling, places, base, image, lane, lanes, v2, v3);
}

WF_NATIVE(wf_native_40) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (v0 + k[2]);
    const uint32_t v2 = wf_looked_up(g, k[3], k[4], v1);
    const uint32_t v3 = wf_looked_up(g, k[5], k[6], v1);
    wf_windowed(filling, places, base, image, lane, lanes, v2, v3);
}

WF_NATIVE(wf_native_41) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (v0 - k[2]);
    const uint32_t v2 = (v1 - k[3]);
    const uint32_t v3 = wf_looked_up(g, k[4], k[5], v2);
    wf_windowed(filling, places, base, image, lane, lanes, k[6], v3);
}

WF_NATIVE(wf_native_42) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[1], k[2]);
    const uint32_t v1 = wf_drawn(g, k[3], k[4]);
    const uint32_t v2 = (v1 * k[5]);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return (((uint32_t)((int32_t)(((e.line() * k[0]) + e.position()) + v0) >> (v2 & 31))) & k[6]);
    });
}

WF_NATIVE(wf_native_43) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[1], k[2]);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((((((e.noise() & k[0]) | v0) * k[3]) + k[4]) & k[5]) & k[6]);
    });
}

WF_NATIVE(wf_native_44) {
    WF_NUMBERS(7);
    const uint32_t v0 = wf_drawn(g, k[2], k[3]);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((e.noise() & k[0]) + ((((((e.line() * k[1]) + e.position()) + v0) & k[4]) << (k[5] & 31)) + k[6]));
    });
}

WF_NATIVE(wf_native_45) {
    WF_NUMBERS(8);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v1 = (v0 - k[2]);
    const uint32_t v2 = (v1 + k[3]);
    const uint32_t v3 = (v2 - k[4]);
    const uint32_t v4 = wf_looked_up(g, k[5], k[6], v3);
    wf_windowed(filling, places, base, image, lane, lanes, k[7], v4);
}

WF_NATIVE(wf_native_46) {
    WF_NUMBERS(8);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v2 = wf_drawn(g, k[5], k[6]);
    const uint32_t v3 = (v2 + k[7]);
    const uint32_t v4 = (v0 ^ v3);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v1 = ((k[3] << ((line & k[2]) & 31)) | k[4]);
        e.put(line, v0, v1);
        e.put(line, v4, v1);
    });
}

WF_NATIVE(wf_native_47) {
    WF_NUMBERS(8);
    wf_each<WF_MANY(2)>(g, [&](const auto &e) {
        return ((wf_clipped((((uint32_t)((int32_t)(((e.noise() >> (k[0] & 31)) & k[1]) * k[2]) >> (k[3] & 31))) - k[4]), k[5], k[6])) & k[7]);
    });
}

WF_NATIVE(wf_native_48) {
    WF_NUMBERS(9);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v2 = wf_drawn(g, k[3], k[4]);
    const uint32_t v3 = (v2 + k[5]);
    const uint32_t v4 = (v0 ^ v3);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v1 = (e.beside(line, v0) | k[2]);
        e.put(line, v0, v1);
        e.put(line, v4, (((k[6] - v1) & k[7]) & k[8]));
    });
}

WF_NATIVE(wf_native_49) {
    WF_NUMBERS(9);
    const uint32_t v0 = wf_drawn(g, k[0], k[1]);
    const uint32_t v2 = wf_drawn(g, k[5], k[6]);
    const uint32_t v3 = (v2 + k[7]);
    const uint32_t v4 = (v0 ^ v3);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v1 = ((e.beside(line, k[2]) & k[3]) + k[4]);
        e.put(line, v0, v1);
        e.put(line, v4, (v1 ^ k[8]));
    });
}

WF_NATIVE(wf_native_50) {
    WF_NUMBERS(9);
    wf_each_line(g, [&](const auto &e, uint32_t line) {
        const uint32_t v0 = (e.beside(line, k[0]) & k[1]);
        const uint32_t v1 = (((uint32_t)((int32_t)v0 >> (k[2] & 31))) & k[3]);
        e.put(line, v1, (((e.beside(line, v1) & k[4]) + k[5]) | ((v0 & k[6]) ? k[7] : k[8])));
    });
}

WF_CALLED void wf_native(WF_NATIVE_TAKES, uint32_t which) {
    switch (which) {
    case 0: wf_native_0(WF_PASSED); break;
    case 1: wf_native_1(WF_PASSED); break;
    case 2: wf_native_2(WF_PASSED); break;
    case 3: wf_native_3(WF_PASSED); break;
    case 4: wf_native_4(WF_PASSED); break;
    case 5: wf_native_5(WF_PASSED); break;
    case 6: wf_native_6(WF_PASSED); break;
    case 7: wf_native_7(WF_PASSED); break;
    case 8: wf_native_8(WF_PASSED); break;
    case 9: wf_native_9(WF_PASSED); break;
    case 10: wf_native_10(WF_PASSED); break;
    case 11: wf_native_11(WF_PASSED); break;
    case 12: wf_native_12(WF_PASSED); break;
    case 13: wf_native_13(WF_PASSED); break;
    case 14: wf_native_14(WF_PASSED); break;
    case 15: wf_native_15(WF_PASSED); break;
    case 16: wf_native_16(WF_PASSED); break;
    case 17: wf_native_17(WF_PASSED); break;
    case 18: wf_native_18(WF_PASSED); break;
    case 19: wf_native_19(WF_PASSED); break;
    case 20: wf_native_20(WF_PASSED); break;
    case 21: wf_native_21(WF_PASSED); break;
    case 22: wf_native_22(WF_PASSED); break;
    case 23: wf_native_23(WF_PASSED); break;
    case 24: wf_native_24(WF_PASSED); break;
    case 25: wf_native_25(WF_PASSED); break;
    case 26: wf_native_26(WF_PASSED); break;
    case 27: wf_native_27(WF_PASSED); break;
    case 28: wf_native_28(WF_PASSED); break;
    case 29: wf_native_29(WF_PASSED); break;
    case 30: wf_native_30(WF_PASSED); break;
    case 31: wf_native_31(WF_PASSED); break;
    case 32: wf_native_32(WF_PASSED); break;
    case 33: wf_native_33(WF_PASSED); break;
    case 34: wf_native_34(WF_PASSED); break;
    case 35: wf_native_35(WF_PASSED); break;
    case 36: wf_native_36(WF_PASSED); break;
    case 37: wf_native_37(WF_PASSED); break;
    case 38: wf_native_38(WF_PASSED); break;
    case 39: wf_native_39(WF_PASSED); break;
    case 40: wf_native_40(WF_PASSED); break;
    case 41: wf_native_41(WF_PASSED); break;
    case 42: wf_native_42(WF_PASSED); break;
    case 43: wf_native_43(WF_PASSED); break;
    case 44: wf_native_44(WF_PASSED); break;
    case 45: wf_native_45(WF_PASSED); break;
    case 46: wf_native_46(WF_PASSED); break;
    case 47: wf_native_47(WF_PASSED); break;
    case 48: wf_native_48(WF_PASSED); break;
    case 49: wf_native_49(WF_PASSED); break;
    case 50: wf_native_50(WF_PASSED); break;
    }
}
