/* Written by strategies/contents/native_shapes.py; contents.h includes it. */

/* 00c07470a1b3 */
WF_NATIVE(wf_native_0) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = (v22 - k17) & k18;
        const T v24 = v23 & k19;
        const T v25 = v24 | k20;
        return v25;
    });
}

/* 02912240afd6 */
WF_NATIVE(wf_native_1) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = k4 - k5;
    const T v4 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
    const T v5 = v4 - k7;
    const T v6 = wf_looked_up<T>(g, k8, k9, v5);
    const T v8 = wf_drawn<T>(g, k10, k11);
    const T v9 = v8 + k12;
    const T v10 = v0 ^ v9;
    const T v13 = v4 - k15;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v7 = v2 | v6;
        const T v11 = e.beside(line, k13);
        const T v12 = v11 & k14;
        const T v14 = v11 >> (k16 & (8 * sizeof(T) - 1));
        const T v15 = v14 & k17;
        const T v16 = v13 - v15;
        const T v17 = v16 - k18;
        const T v18 = wf_looked_up<T>(g, k19, k20, v17);
        const T v19 = v12 | v18;
        const T v20 = v11 & k21;
        const T v21 = v19 * v20;
        wf_put<T, 0>(g, line, v0, v7);
        wf_put<T, 0>(g, line, v10, v21);
        (void)e;
    });
}

/* 03bfc8f0dd68 */
WF_NATIVE(wf_native_2) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = wf_looked_up<T>(g, k1, k2, v1);
        return v2;
    });
}

/* 051091962825 */
WF_NATIVE(wf_native_3) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.beside(e.line(), k0);
        const T v1 = v0 * k1;
        const T v2 = (T)((S)v1 >> (k2 & (8 * sizeof(T) - 1)));
        const T v3 = e.position();
        const T v4 = v3 * k3;
        const T v5 = v2 - v4;
        const T v6 = wf_clipped<T>(v5, k4, k5);
        const T v7 = (k6 << (v6 & (8 * sizeof(T) - 1))) & k7;
        const T v8 = (v7 - k8) & k9;
        const T v9 = e.noise();
        const T v10 = v8 & v9;
        return v10;
    });
}

/* 0647177aab76 */
WF_NATIVE(wf_native_4) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = v9 & k15;
    const T v20 = wf_drawn<T>(g, k17, k18);
    const T v21 = v20 + k19;
    const T v22 = v0 ^ v21;
    const T v23 = (T)((S)v22 >> (k20 & (8 * sizeof(T) - 1)));
    const T v24 = v23 << (k21 & (8 * sizeof(T) - 1));
    const T v25 = v22 & k22;
    const T v26 = v24 + v25;
    const T v27 = v26 + v5;
    const T v28 = v26 + v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 | k14;
        const T v18 = v17 ? v13 : v14;
        const T v19 = v18 | k16;
        wf_put<T, 0>(g, line, v6, v16);
        wf_put<T, 0>(g, line, v12, v19);
        wf_put<T, 0>(g, line, v27, v16);
        wf_put<T, 0>(g, line, v28, v19);
        (void)e;
    });
}

/* 087664d83b11 */
WF_NATIVE(wf_native_5) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v5 = wf_drawn<T>(g, k5, k6);
    const T v6 = v5 + k7;
    const T v7 = v0 ^ v6;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v1 = line;
        const T v2 = v1 & k2;
        const T v3 = k3 << (v2 & (8 * sizeof(T) - 1));
        const T v4 = v3 | k4;
        wf_put<T, 1>(g, line, v0, v4);
        wf_put<T, 1>(g, line, v7, v4);
        (void)e;
    });
}

/* 090cd9935f84 */
WF_NATIVE(wf_native_6) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v7 = wf_drawn<T>(g, k3, k4);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = e.line();
        const T v3 = v2 * k1;
        const T v4 = e.position();
        const T v5 = v3 + v4;
        const T v6 = (v5) & k2;
        const T v8 = (v6 + v7) & k5;
        const T v9 = v8 & k6;
        const T v10 = v9 << (k7 & (8 * sizeof(T) - 1));
        const T v11 = v10 + k8;
        const T v12 = v1 + v11;
        return v12;
    });
}

/* 0a5a53d7bff1 */
WF_NATIVE(wf_native_7) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v5 = wf_drawn<T>(g, k5, k6);
    const T v6 = v5 + k7;
    const T v7 = v0 ^ v6;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = line;
        const T v2 = v1 & k2;
        const T v3 = k3 << (v2 & (8 * sizeof(T) - 1));
        const T v4 = v3 | k4;
        wf_put<T, 0>(g, line, v0, v4);
        wf_put<T, 0>(g, line, v7, v4);
        (void)e;
    });
}

/* 0f3ed1f569b9 */
WF_NATIVE(wf_native_8) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.beside(e.line(), k0);
        const T v1 = v0 >> (k1 & (8 * sizeof(T) - 1));
        const T v2 = v1 & k2;
        const T v3 = v2 * k3;
        return v3;
    });
}

/* 0f424abb5381 */
WF_NATIVE(wf_native_9) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 - k1) & k2;
        const T v3 = v2 & k3;
        const T v4 = v3 | k4;
        return v4;
    });
}

/* 10ab28a5c0e9 */
WF_NATIVE(wf_native_10) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    const T v9 = (T)((S)v8 >> (k8 & (8 * sizeof(T) - 1)));
    const T v10 = v9 << (k9 & (8 * sizeof(T) - 1));
    const T v11 = v8 & k10;
    const T v12 = v10 + v11;
    const T v13 = k11 * k12;
    const T v14 = v12 + v13;
    const T v15 = wf_drawn<T>(g, k13, k14);
    const T v16 = (T)((S)v15 >> (k15 & (8 * sizeof(T) - 1)));
    const T v17 = v16 ^ k16;
    const T v18 = v17 & k17;
    const T v19 = k18 * k19;
    const T v20 = v12 + v19;
    const T v25 = v17 & k21;
    const T v28 = (T)((S)v0 >> (k23 & (8 * sizeof(T) - 1)));
    const T v29 = v28 << (k24 & (8 * sizeof(T) - 1));
    const T v30 = v0 & k25;
    const T v31 = v29 + v30;
    const T v32 = v31 + v13;
    const T v33 = v31 + v19;
    const T v40 = (T)((S)v3 >> (k28 & (8 * sizeof(T) - 1)));
    const T v41 = v40 << (k29 & (8 * sizeof(T) - 1));
    const T v42 = v3 & k30;
    const T v43 = v41 + v42;
    const T v44 = v43 + v13;
    const T v47 = v43 + v19;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v21 = e.beside(line, v20);
        const T v22 = e.beside(line, v14);
        const T v23 = v18 ? v21 : v22;
        const T v24 = v23 & k20;
        const T v26 = v25 ? v21 : v22;
        const T v27 = v26 & k22;
        const T v34 = e.beside(line, v33);
        const T v35 = e.beside(line, v32);
        const T v36 = v18 ? v34 : v35;
        const T v37 = v36 | k26;
        const T v38 = v25 ? v34 : v35;
        const T v39 = v38 | k27;
        const T v45 = (k31 - v37) & k32;
        const T v46 = v45 & k33;
        const T v48 = (k34 - v39) & k35;
        const T v49 = v48 & k36;
        wf_put<T, 1>(g, line, v14, v24);
        wf_put<T, 1>(g, line, v20, v27);
        wf_put<T, 1>(g, line, v32, v37);
        wf_put<T, 1>(g, line, v33, v39);
        wf_put<T, 1>(g, line, v44, v46);
        wf_put<T, 1>(g, line, v47, v49);
        (void)e;
    });
}

/* 12c29b4b5421 */
WF_NATIVE(wf_native_11) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 + k1;
        const T v3 = v0 >> (k2 & (8 * sizeof(T) - 1));
        const T v4 = v3 & k3;
        const T v5 = v4 * k4;
        const T v6 = v2 | v5;
        return v6;
    });
}

/* 164b70bdfdf9 */
WF_NATIVE(wf_native_12) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    const T v24 = v23 - k19;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v25 = v10 + k20;
        const T v26 = wf_drawn<T>(g, v25, k21);
        const T v27 = v26 & k22;
        const T v28 = v24 - v27;
        const T v29 = (T)((S)v28 >> (k23 & (8 * sizeof(T) - 1)));
        const T v30 = (T)((S)v26 >> (k24 & (8 * sizeof(T) - 1)));
        const T v31 = v30 & k25;
        const T v32 = v29 + v31;
        const T v33 = v32 - k26;
        const T v34 = v28 - v33;
        const T v35 = v34 - k27;
        const T v36 = wf_looked_up<T>(g, k28, k29, v35);
        const T v37 = v22 + v36;
        return v37;
    });
}

/* 18839e8e6231 */
WF_NATIVE(wf_native_13) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 >> (k0 & (8 * sizeof(T) - 1));
        const T v2 = v1 & k1;
        const T v3 = v2 * k2;
        const T v4 = (T)((S)v3 >> (k3 & (8 * sizeof(T) - 1)));
        const T v5 = v4 - k4;
        const T v6 = wf_clipped<T>(v5, k5, k6);
        const T v7 = (v6) & k7;
        return v7;
    });
}

/* 18d755db05de */
WF_NATIVE(wf_native_14) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v4 = wf_drawn<T>(g, k6, k7);
    const T v5 = v4 + k8;
    const T v6 = v0 ^ v5;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v3 = (v2 + k4) & k5;
        const T v7 = v3 ^ k9;
        wf_put<T, 0>(g, line, v0, v3);
        wf_put<T, 0>(g, line, v6, v7);
        (void)e;
    });
}

/* 192e24c6b647 */
WF_NATIVE(wf_native_15) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = v2 * k1;
        const T v4 = v1 - v3;
        const T v5 = wf_clipped<T>(v4, k2, k3);
        const T v6 = (k4 << (v5 & (8 * sizeof(T) - 1))) & k5;
        const T v7 = (v6 - k6) & k7;
        return v7;
    });
}

/* 1b1837d30f8e */
WF_NATIVE(wf_native_16) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T v4 = wf_drawn<T>(g, k4, k5);
    const T v5 = v4 - k6;
    const T v6 = wf_looked_up<T>(g, k7, k8, v5);
    const T v23 = v4 - k23;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = e.beside(line, k2);
        const T v3 = v2 & k3;
        const T v7 = (v3 + v6) & k9;
        const T v8 = e.beside(line, k10);
        const T v9 = v8 & k11;
        const T v10 = v9 * k12;
        const T v11 = (T)((S)v10 >> (k13 & (8 * sizeof(T) - 1)));
        const T v12 = v11 + k14;
        const T v13 = v1 ^ v12;
        const T v14 = v7 ^ k15;
        const T v15 = (T)(v12 == k16);
        const T v16 = v12 ^ k17;
        const T v17 = v15 ? k18 : v16;
        const T v18 = v1 ^ v17;
        const T v19 = e.beside(line, k19);
        const T v20 = v19 & k20;
        const T v21 = v20 * k21;
        const T v22 = v21 & k22;
        const T v24 = (v19) & k24;
        const T v25 = (v24 >> (k25 & (8 * sizeof(T) - 1))) & k26;
        const T v26 = v25 & k27;
        const T v27 = v23 - v26;
        const T v28 = v27 - k28;
        const T v29 = wf_looked_up<T>(g, k29, k30, v28);
        const T v30 = (v22 | v29) & k31;
        wf_put<T, 0>(g, line, v1, v7);
        wf_put<T, 0>(g, line, v13, v14);
        wf_put<T, 0>(g, line, v18, v30);
        (void)e;
    });
}

/* 1db4f43b2a22 */
WF_NATIVE(wf_native_17) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        return v21;
    });
}

/* 1f4a6e1e0e69 */
WF_NATIVE(wf_native_18) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = v9 & k15;
    const T v20 = wf_drawn<T>(g, k17, k18);
    const T v21 = v20 + k19;
    const T v22 = v0 ^ v21;
    const T v23 = (T)((S)v22 >> (k20 & (8 * sizeof(T) - 1)));
    const T v24 = v23 << (k21 & (8 * sizeof(T) - 1));
    const T v25 = v22 & k22;
    const T v26 = v24 + v25;
    const T v27 = v26 + v5;
    const T v30 = v26 + v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 | k14;
        const T v18 = v17 ? v13 : v14;
        const T v19 = v18 | k16;
        const T v28 = (k23 - v16) & k24;
        const T v29 = v28 & k25;
        const T v31 = (k26 - v19) & k27;
        const T v32 = v31 & k28;
        wf_put<T, 0>(g, line, v6, v16);
        wf_put<T, 0>(g, line, v12, v19);
        wf_put<T, 0>(g, line, v27, v29);
        wf_put<T, 0>(g, line, v30, v32);
        (void)e;
    });
}

/* 1f9b5598a03a */
WF_NATIVE(wf_native_19) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    wf_windowed(filling, places, base, image, lane, lanes, 0, k0);
}

/* 20928050d612 */
WF_NATIVE(wf_native_20) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = k2 - k3;
    const T v2 = (T)((S)v1 >> (k4 & (8 * sizeof(T) - 1)));
    const T v3 = v1 - v2;
    const T v4 = v3 - k5;
    const T v5 = wf_looked_up<T>(g, k6, k7, v4);
    const T v6 = wf_drawn<T>(g, k8, k9);
    const T v7 = v6 + k10;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v0, v5);
        wf_put<T, 0>(g, line, v8, v5);
        (void)e;
    });
}

/* 21f6a71c2a24 */
WF_NATIVE(wf_native_21) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    const T v9 = (T)((S)v8 >> (k8 & (8 * sizeof(T) - 1)));
    const T v10 = v9 << (k9 & (8 * sizeof(T) - 1));
    const T v11 = v8 & k10;
    const T v12 = v10 + v11;
    const T v13 = k11 * k12;
    const T v14 = v12 + v13;
    const T v15 = wf_drawn<T>(g, k13, k14);
    const T v16 = (T)((S)v15 >> (k15 & (8 * sizeof(T) - 1)));
    const T v17 = v16 ^ k16;
    const T v18 = v17 & k17;
    const T v19 = k18 * k19;
    const T v20 = v12 + v19;
    const T v25 = v17 & k21;
    const T v28 = (T)((S)v0 >> (k23 & (8 * sizeof(T) - 1)));
    const T v29 = v28 << (k24 & (8 * sizeof(T) - 1));
    const T v30 = v0 & k25;
    const T v31 = v29 + v30;
    const T v32 = v31 + v13;
    const T v33 = v31 + v19;
    const T v40 = (T)((S)v3 >> (k28 & (8 * sizeof(T) - 1)));
    const T v41 = v40 << (k29 & (8 * sizeof(T) - 1));
    const T v42 = v3 & k30;
    const T v43 = v41 + v42;
    const T v44 = v43 + v13;
    const T v47 = v43 + v19;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v21 = e.beside(line, v20);
        const T v22 = e.beside(line, v14);
        const T v23 = v18 ? v21 : v22;
        const T v24 = v23 & k20;
        const T v26 = v25 ? v21 : v22;
        const T v27 = v26 & k22;
        const T v34 = e.beside(line, v33);
        const T v35 = e.beside(line, v32);
        const T v36 = v18 ? v34 : v35;
        const T v37 = v36 | k26;
        const T v38 = v25 ? v34 : v35;
        const T v39 = v38 | k27;
        const T v45 = (k31 - v37) & k32;
        const T v46 = v45 & k33;
        const T v48 = (k34 - v39) & k35;
        const T v49 = v48 & k36;
        wf_put<T, 0>(g, line, v14, v24);
        wf_put<T, 0>(g, line, v20, v27);
        wf_put<T, 0>(g, line, v32, v37);
        wf_put<T, 0>(g, line, v33, v39);
        wf_put<T, 0>(g, line, v44, v46);
        wf_put<T, 0>(g, line, v47, v49);
        (void)e;
    });
}

/* 220a187eed84 */
WF_NATIVE(wf_native_22) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)(v0 == k2);
    const T v2 = v1 ? k3 : k4;
    wf_windowed(filling, places, base, image, lane, lanes, v2, 0);
}

/* 22a65aefea96 */
WF_NATIVE(wf_native_23) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T k37 = wf_numbered<T>(g, 37);
    const T k38 = wf_numbered<T>(g, 38);
    const T k39 = wf_numbered<T>(g, 39);
    const T k40 = wf_numbered<T>(g, 40);
    const T k41 = wf_numbered<T>(g, 41);
    const T k42 = wf_numbered<T>(g, 42);
    const T k43 = wf_numbered<T>(g, 43);
    const T k44 = wf_numbered<T>(g, 44);
    const T k45 = wf_numbered<T>(g, 45);
    const T k46 = wf_numbered<T>(g, 46);
    const T k47 = wf_numbered<T>(g, 47);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = wf_looked_up<T>(g, k6, k7, v3);
    const T v5 = wf_drawn<T>(g, k8, k9);
    const T v6 = (T)((S)v5 >> (k10 & (8 * sizeof(T) - 1)));
    const T v7 = v5 & k11;
    const T v8 = wf_drawn<T>(g, k12, k13);
    const T v9 = wf_looked_up<T>(g, k14, k15, v8);
    const T v10 = wf_drawn<T>(g, k16, k17);
    const T v11 = (T)((S)v10 >> (k18 & (8 * sizeof(T) - 1)));
    const T v12 = v10 & k19;
    const T v13 = wf_drawn<T>(g, k20, k21);
    const T v14 = wf_looked_up<T>(g, k22, k23, v13);
    const T v15 = wf_drawn<T>(g, k24, k25);
    const T v16 = (T)((S)v15 >> (k26 & (8 * sizeof(T) - 1)));
    const T v17 = v15 & k27;
    const T v18 = wf_drawn<T>(g, k28, k29);
    const T v19 = wf_looked_up<T>(g, k30, k31, v18);
    const T v20 = wf_drawn<T>(g, k32, k33);
    const T v21 = (T)((S)v20 >> (k34 & (8 * sizeof(T) - 1)));
    const T v22 = v20 & k35;
    const T v23 = wf_drawn<T>(g, k36, k37);
    const T v24 = wf_looked_up<T>(g, k38, k39, v23);
    const T v25 = wf_drawn<T>(g, k40, k41);
    const T v26 = (T)((S)v25 >> (k42 & (8 * sizeof(T) - 1)));
    const T v27 = v25 & k43;
    const T v28 = wf_drawn<T>(g, k44, k45);
    const T v29 = wf_looked_up<T>(g, k46, k47, v28);
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v2, v4);
        wf_put<T, 0>(g, v6, v7, v9);
        wf_put<T, 0>(g, v11, v12, v14);
        wf_put<T, 0>(g, v16, v17, v19);
        wf_put<T, 0>(g, v21, v22, v24);
        wf_put<T, 0>(g, v26, v27, v29);
    }
}

/* 2784c9bc73a0 */
WF_NATIVE(wf_native_24) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 - k4;
    const T v3 = v2 - k5;
    const T v4 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
    const T v5 = v3 - v4;
    const T v6 = v5 - k7;
    const T v7 = wf_looked_up<T>(g, k8, k9, v6);
    const T v8 = wf_drawn<T>(g, k10, k11);
    const T v9 = v8 + k12;
    const T v10 = v0 ^ v9;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v0, v7);
        wf_put<T, 0>(g, line, v10, v7);
        (void)e;
    });
}

/* 28743c4e7211 */
WF_NATIVE(wf_native_25) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 >> (k0 & (8 * sizeof(T) - 1));
        const T v2 = v1 & k1;
        const T v3 = v2 * k2;
        return v3;
    });
}

/* 29cfd18fdae6 */
WF_NATIVE(wf_native_26) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v22 = wf_drawn<T>(g, k16, k17);
    const T v23 = k18 - v22;
    const T v24 = wf_looked_up<T>(g, k19, k20, v23);
    const T v26 = wf_looked_up<T>(g, k21, k22, v23);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v25 = v21 & v24;
        const T v27 = v25 + v26;
        return v27;
    });
}

/* 2a1dd433dc64 */
WF_NATIVE(wf_native_27) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v2 = wf_drawn<T>(g, k1, k2);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v3 = v1 | v2;
        const T v4 = v3 * k3;
        const T v5 = (v4 + k4) & k5;
        const T v6 = v5 & k6;
        return v6;
    });
}

/* 2af800af0207 */
WF_NATIVE(wf_native_28) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T v1 = wf_drawn<T>(g, k0, k1);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = line;
        const T v2 = v0 ^ v1;
        const T v3 = v2 & k2;
        wf_put<T, 0>(g, line, v3, k3);
        (void)e;
    });
}

/* 2c825314376f */
WF_NATIVE(wf_native_29) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v10 = wf_drawn<T>(g, k11, k12);
    const T v11 = v10 + k13;
    const T v12 = v0 ^ v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = v2 + v8;
        const T v13 = v9 ^ k14;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v13);
        (void)e;
    });
}

/* 2d39c3c6eb0d */
WF_NATIVE(wf_native_30) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 - k2;
    const T v2 = v1 - k3;
    const T v3 = wf_looked_up<T>(g, k4, k5, v2);
    wf_windowed(filling, places, base, image, lane, lanes, k6, v3);
}

/* 2e2bea18d194 */
WF_NATIVE(wf_native_31) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        return v21;
    });
}

/* 2eb5343480c7 */
WF_NATIVE(wf_native_32) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v3 = v2 & k4;
    const T v4 = (T)((S)k5 >> (k6 & (8 * sizeof(T) - 1)));
    const T v5 = v4 << (k7 & (8 * sizeof(T) - 1));
    const T v6 = k8 & k9;
    const T v7 = v5 + v6;
    const T v8 = k10 * k11;
    const T v9 = v7 + v8;
    const T v11 = k12 * k13;
    const T v12 = v7 + v11;
    const T v32 = v2 & k25;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v10 = e.beside(line, v9);
        const T v13 = e.beside(line, v12);
        const T v14 = v3 ? v10 : v13;
        const T v15 = v14 & k14;
        const T v16 = (T)((S)v15 >> (k15 & (8 * sizeof(T) - 1)));
        const T v17 = v16 & k16;
        const T v18 = (T)((S)v17 >> (k17 & (8 * sizeof(T) - 1)));
        const T v19 = v18 << (k18 & (8 * sizeof(T) - 1));
        const T v20 = v17 & k19;
        const T v21 = v19 + v20;
        const T v22 = v21 + v11;
        const T v23 = v21 + v8;
        const T v24 = e.beside(line, v23);
        const T v25 = e.beside(line, v22);
        const T v26 = v3 ? v24 : v25;
        const T v27 = v26 & k20;
        const T v28 = v27 + k21;
        const T v29 = v15 & k22;
        const T v30 = v29 ? k23 : k24;
        const T v31 = v28 | v30;
        const T v33 = v32 ? v10 : v13;
        const T v34 = v33 & k26;
        const T v35 = (T)((S)v34 >> (k27 & (8 * sizeof(T) - 1)));
        const T v36 = v35 & k28;
        const T v37 = (T)((S)v36 >> (k29 & (8 * sizeof(T) - 1)));
        const T v38 = v37 << (k30 & (8 * sizeof(T) - 1));
        const T v39 = v36 & k31;
        const T v40 = v38 + v39;
        const T v41 = v40 + v8;
        const T v42 = e.beside(line, v41);
        const T v43 = v40 + v11;
        const T v44 = e.beside(line, v43);
        const T v45 = v32 ? v42 : v44;
        const T v46 = v45 & k32;
        const T v47 = v46 + k33;
        const T v48 = v34 & k34;
        const T v49 = v48 ? k35 : k36;
        const T v50 = v47 | v49;
        wf_put<T, 0>(g, line, v22, v31);
        wf_put<T, 0>(g, line, v41, v50);
        (void)e;
    });
}

/* 2ed41894439c */
WF_NATIVE(wf_native_33) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = e.line();
        const T v2 = v1 & k0;
        const T v3 = wf_looked_up<T>(g, k1, k2, v2);
        const T v4 = v0 & v3;
        const T v5 = wf_looked_up<T>(g, k3, k4, v2);
        const T v6 = v4 + v5;
        return v6;
    });
}

/* 3029a1931f48 */
WF_NATIVE(wf_native_34) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v24 = v22 | v23;
        const T v25 = v24 * k19;
        const T v26 = v25 + k20;
        const T v27 = v26 & k21;
        return v27;
    });
}

/* 325323d9b78a */
WF_NATIVE(wf_native_35) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = v22 | k17;
        return v23;
    });
}

/* 32cdd9c478c1 */
WF_NATIVE(wf_native_36) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T v1 = wf_drawn<T>(g, k0, k1);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = line;
        const T v2 = v0 ^ v1;
        const T v3 = v2 & k2;
        wf_put<T, 0>(g, line, v3, k3);
        (void)e;
    });
}

/* 33e126344411 */
WF_NATIVE(wf_native_37) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        return v22;
    });
}

/* 3af99a136cb9 */
WF_NATIVE(wf_native_38) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v17 = k14 * k15;
    const T v20 = k16 * k17;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = v10 - k9;
        const T v12 = v11 & k10;
        const T v13 = (T)((S)v12 >> (k11 & (8 * sizeof(T) - 1)));
        const T v14 = v13 << (k12 & (8 * sizeof(T) - 1));
        const T v15 = v12 & k13;
        const T v16 = v14 + v15;
        const T v18 = v16 + v17;
        const T v19 = e.beside(e.line(), v18);
        const T v21 = v16 + v20;
        const T v22 = e.beside(e.line(), v21);
        const T v23 = v6 ? v19 : v22;
        const T v24 = v23 ^ k18;
        const T v25 = v24 - k19;
        const T v26 = (T)((S)v10 >> (k20 & (8 * sizeof(T) - 1)));
        const T v27 = v26 << (k21 & (8 * sizeof(T) - 1));
        const T v28 = v10 & k22;
        const T v29 = v27 + v28;
        const T v30 = v29 + v17;
        const T v31 = e.beside(e.line(), v30);
        const T v32 = v29 + v20;
        const T v33 = e.beside(e.line(), v32);
        const T v34 = v6 ? v31 : v33;
        const T v35 = v34 & k23;
        const T v36 = (T)((S)v25 >> (v35 & (8 * sizeof(T) - 1)));
        const T v37 = v36 & k24;
        return v37;
    });
}

/* 3b1262b453a0 */
WF_NATIVE(wf_native_39) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v10 = k10 * k11;
    const T v11 = v4 + v10;
    const T v12 = wf_drawn<T>(g, k12, k13);
    const T v13 = v12 + k14;
    const T v14 = v0 ^ v13;
    const T v15 = (T)((S)v14 >> (k15 & (8 * sizeof(T) - 1)));
    const T v16 = v15 << (k16 & (8 * sizeof(T) - 1));
    const T v17 = v14 & k17;
    const T v18 = v16 + v17;
    const T v19 = v18 + v5;
    const T v20 = v18 + v10;
    const T v21 = (T)(v12 == k18);
    const T v22 = v21 ? k19 : v13;
    const T v23 = v22 + k20;
    const T v24 = v0 ^ v23;
    const T v25 = (T)((S)v24 >> (k21 & (8 * sizeof(T) - 1)));
    const T v26 = v25 << (k22 & (8 * sizeof(T) - 1));
    const T v27 = v24 & k23;
    const T v28 = v26 + v27;
    const T v29 = v28 + v5;
    const T v30 = v28 + v10;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v7 = line;
        const T v8 = v7 & k7;
        const T v9 = wf_looked_up<T>(g, k8, k9, v8);
        wf_put<T, 0>(g, line, v6, v9);
        wf_put<T, 0>(g, line, v11, v9);
        wf_put<T, 0>(g, line, v19, k24);
        wf_put<T, 0>(g, line, v20, k25);
        wf_put<T, 0>(g, line, v29, k26);
        wf_put<T, 0>(g, line, v30, k27);
        (void)e;
    });
}

/* 3c3ec60cfcc6 */
WF_NATIVE(wf_native_40) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v5 = wf_drawn<T>(g, k7, k8);
    const T v6 = v5 + k9;
    const T v7 = (v6) & k10;
    const T v8 = (v7 << (k11 & (8 * sizeof(T) - 1))) & k12;
    const T v12 = wf_drawn<T>(g, k15, k16);
    const T v13 = v12 + k17;
    const T v14 = v0 ^ v13;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 >> (k3 & (8 * sizeof(T) - 1));
        const T v3 = v2 & k4;
        const T v4 = wf_looked_up<T>(g, k5, k6, v3);
        const T v9 = (v4 + v8) & k13;
        const T v10 = v1 & k14;
        const T v11 = v9 | v10;
        const T v15 = e.beside(line, k18);
        const T v16 = v15 & k19;
        const T v17 = v15 >> (k20 & (8 * sizeof(T) - 1));
        const T v18 = v17 & k21;
        const T v19 = k22 - v18;
        const T v20 = v19 - k23;
        const T v21 = wf_looked_up<T>(g, k24, k25, v20);
        const T v22 = v16 | v21;
        wf_put<T, 0>(g, line, v0, v11);
        wf_put<T, 0>(g, line, v14, v22);
        (void)e;
    });
}

/* 3dae9b70d64d */
WF_NATIVE(wf_native_41) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 - k1) & k2;
        const T v3 = v2 & k3;
        const T v4 = v3 | k4;
        return v4;
    });
}

/* 3dc3fe93f6b6 */
WF_NATIVE(wf_native_42) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v11 = wf_drawn<T>(g, k12, k13);
    const T v12 = v11 + k14;
    const T v13 = v0 ^ v12;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = v2 + v8;
        const T v10 = v9 | k11;
        wf_put<T, 0>(g, line, v0, v10);
        wf_put<T, 0>(g, line, v13, v10);
        (void)e;
    });
}

/* 409c13f486cf */
WF_NATIVE(wf_native_43) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 - k1) & k2;
        const T v3 = v2 & k3;
        return v3;
    });
}

/* 420851f30031 */
WF_NATIVE(wf_native_44) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = v3 - k6;
    const T v5 = v4 - k7;
    const T v6 = (T)((S)v5 >> (k8 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k9;
    const T v8 = wf_looked_up<T>(g, k10, k11, v7);
    const T v10 = wf_drawn<T>(g, k12, k13);
    const T v11 = v10 + k14;
    const T v12 = v0 ^ v11;
    const T v15 = v6 - k17;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v9 = v2 | v8;
        const T v13 = e.beside(line, k15);
        const T v14 = v13 & k16;
        const T v16 = v13 >> (k18 & (8 * sizeof(T) - 1));
        const T v17 = v16 & k19;
        const T v18 = v15 - v17;
        const T v19 = v18 - k20;
        const T v20 = wf_looked_up<T>(g, k21, k22, v19);
        const T v21 = v14 | v20;
        const T v22 = v13 & k23;
        const T v23 = v21 * v22;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v23);
        (void)e;
    });
}

/* 4ae87794115f */
WF_NATIVE(wf_native_45) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = wf_looked_up<T>(g, k17, k18, v22);
        return v23;
    });
}

/* 4b00129961b1 */
WF_NATIVE(wf_native_46) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 + k2;
    const T v2 = wf_looked_up<T>(g, k3, k4, v1);
    const T v3 = wf_looked_up<T>(g, k5, k6, v1);
    wf_windowed(filling, places, base, image, lane, lanes, v2, v3);
}

/* 4b35f8128515 */
WF_NATIVE(wf_native_47) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = (T)((S)v1 >> (k2 & (8 * sizeof(T) - 1)));
        const T v3 = v2 & k3;
        const T v4 = e.beside(line, v3);
        const T v5 = v4 & k4;
        const T v6 = v5 + k5;
        const T v7 = v1 & k6;
        const T v8 = v7 ? k7 : k8;
        const T v9 = v6 | v8;
        wf_put<T, 0>(g, line, v3, v9);
        (void)e;
    });
}

/* 4c4c02b0b947 */
WF_NATIVE(wf_native_48) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v0 ^ v4;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 | k2;
        const T v6 = (k6 - v2) & k7;
        const T v7 = v6 & k8;
        wf_put<T, 0>(g, line, v0, v2);
        wf_put<T, 0>(g, line, v5, v7);
        (void)e;
    });
}

/* 4d82c4998701 */
WF_NATIVE(wf_native_49) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T v4 = wf_drawn<T>(g, k4, k5);
    const T v5 = v4 - k6;
    const T v6 = wf_looked_up<T>(g, k7, k8, v5);
    const T v23 = v4 - k22;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = e.beside(line, k2);
        const T v3 = v2 & k3;
        const T v7 = v3 + v6;
        const T v8 = e.beside(line, k9);
        const T v9 = v8 & k10;
        const T v10 = v9 * k11;
        const T v11 = (T)((S)v10 >> (k12 & (8 * sizeof(T) - 1)));
        const T v12 = v11 + k13;
        const T v13 = v1 ^ v12;
        const T v14 = v7 ^ k14;
        const T v15 = (T)(v12 == k15);
        const T v16 = v12 ^ k16;
        const T v17 = v15 ? k17 : v16;
        const T v18 = v1 ^ v17;
        const T v19 = e.beside(line, k18);
        const T v20 = v19 & k19;
        const T v21 = v20 * k20;
        const T v22 = v21 & k21;
        const T v24 = v19 >> (k23 & (8 * sizeof(T) - 1));
        const T v25 = v24 & k24;
        const T v26 = v23 - v25;
        const T v27 = v26 - k25;
        const T v28 = wf_looked_up<T>(g, k26, k27, v27);
        const T v29 = v22 | v28;
        wf_put<T, 0>(g, line, v1, v7);
        wf_put<T, 0>(g, line, v13, v14);
        wf_put<T, 0>(g, line, v18, v29);
        (void)e;
    });
}

/* 4ec36d00dd13 */
WF_NATIVE(wf_native_50) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v4 = wf_drawn<T>(g, k5, k6);
    const T v5 = v4 + k7;
    const T v6 = v0 ^ v5;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v3 = v2 + k4;
        const T v7 = v3 ^ k8;
        wf_put<T, 0>(g, line, v0, v3);
        wf_put<T, 0>(g, line, v6, v7);
        (void)e;
    });
}

/* 4f600d9d3d84 */
WF_NATIVE(wf_native_51) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 + k1;
        return v2;
    });
}

/* 50d9b945a3f6 */
WF_NATIVE(wf_native_52) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v26 = wf_drawn<T>(g, k18, k19);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = e.line();
        const T v24 = v23 * k17;
        const T v25 = v24 + v10;
        const T v27 = v25 + v26;
        const T v28 = v27 & k20;
        const T v29 = v28 << (k21 & (8 * sizeof(T) - 1));
        const T v30 = v29 + k22;
        const T v31 = v22 + v30;
        return v31;
    });
}

/* 52dcbc76513b */
WF_NATIVE(wf_native_53) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v22 = wf_drawn<T>(g, k16, k17);
    const T v23 = v22 + k18;
    const T v24 = wf_looked_up<T>(g, k19, k20, v23);
    const T v26 = wf_looked_up<T>(g, k21, k22, v23);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v25 = v21 & v24;
        const T v27 = v25 + v26;
        return v27;
    });
}

/* 53858618fff1 */
WF_NATIVE(wf_native_54) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v2 = wf_drawn<T>(g, k1, k2);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = line;
        const T v1 = v0 * k0;
        const T v3 = v1 + v2;
        const T v4 = (T)((S)v3 >> (k3 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k4;
        const T v6 = v3 & k5;
        const T v7 = k6 << (v6 & (8 * sizeof(T) - 1));
        wf_put<T, 0>(g, line, v5, v7);
        (void)e;
    });
}

/* 5686c1b23c2c */
WF_NATIVE(wf_native_55) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = e.beside(e.line(), k0);
        const T v2 = v1 & k1;
        const T v3 = (T)(v2 == k2);
        const T v4 = v3 * k3;
        const T v5 = v4 ^ k4;
        const T v6 = v0 & v5;
        const T v7 = v1 >> (k5 & (8 * sizeof(T) - 1));
        const T v8 = v7 & k6;
        const T v9 = v8 * k7;
        const T v10 = v9 & v4;
        const T v11 = v6 | v10;
        return v11;
    });
}

/* 579086686ad9 */
WF_NATIVE(wf_native_56) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = wf_drawn<T>(g, k15, k16);
    const T v18 = v17 + k17;
    const T v19 = v18 + k18;
    const T v20 = (T)((S)v19 >> (k19 & (8 * sizeof(T) - 1)));
    const T v21 = v20 - k20;
    const T v22 = wf_looked_up<T>(g, k21, k22, v21);
    const T v24 = v9 & k23;
    const T v28 = wf_drawn<T>(g, k25, k26);
    const T v29 = v28 + k27;
    const T v30 = v0 ^ v29;
    const T v31 = (T)((S)v30 >> (k28 & (8 * sizeof(T) - 1)));
    const T v32 = v31 << (k29 & (8 * sizeof(T) - 1));
    const T v33 = v30 & k30;
    const T v34 = v32 + v33;
    const T v35 = v34 + v5;
    const T v36 = v34 + v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 & k14;
        const T v23 = v16 + v22;
        const T v25 = v24 ? v13 : v14;
        const T v26 = v25 & k24;
        const T v27 = v26 + v22;
        wf_put<T, 0>(g, line, v6, v23);
        wf_put<T, 0>(g, line, v12, v27);
        wf_put<T, 0>(g, line, v35, v23);
        wf_put<T, 0>(g, line, v36, v27);
        (void)e;
    });
}

/* 589acb81a15c */
WF_NATIVE(wf_native_57) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 * k1;
        return v2;
    });
}

/* 5a0ae6197deb */
WF_NATIVE(wf_native_58) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = (v22 - k17) & k18;
        const T v24 = v23 & k19;
        return v24;
    });
}

/* 5a52703e9cbf */
WF_NATIVE(wf_native_59) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        return v22;
    });
}

/* 5ce5e63caa4e */
WF_NATIVE(wf_native_60) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_looked_up<T>(g, k2, k3, v0);
    const T v2 = wf_looked_up<T>(g, k4, k5, v0);
    wf_windowed(filling, places, base, image, lane, lanes, v1, v2);
}

/* 6015a4e64ad7 */
WF_NATIVE(wf_native_61) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v4 = wf_drawn<T>(g, k5, k6);
    const T v5 = v4 + k7;
    const T v6 = v0 ^ v5;
    const T v7 = (T)(v4 == k8);
    const T v8 = v7 ? k9 : v5;
    const T v9 = v8 + k10;
    const T v10 = v0 ^ v9;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = line;
        const T v2 = v1 & k2;
        const T v3 = wf_looked_up<T>(g, k3, k4, v2);
        wf_put<T, 0>(g, line, v0, v3);
        wf_put<T, 0>(g, line, v6, k11);
        wf_put<T, 0>(g, line, v10, k12);
        (void)e;
    });
}

/* 6032429ee6ca */
WF_NATIVE(wf_native_62) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v4 = e.position();
        const T v5 = v4 + k4;
        const T v6 = wf_drawn<T>(g, v5, k5);
        const T v7 = v6 & k6;
        const T v8 = v3 - v7;
        const T v9 = (T)((S)v8 >> (k7 & (8 * sizeof(T) - 1)));
        const T v10 = (T)((S)v6 >> (k8 & (8 * sizeof(T) - 1)));
        const T v11 = v10 & k9;
        const T v12 = v9 + v11;
        const T v13 = v12 - k10;
        const T v14 = v8 - v13;
        const T v15 = v14 - k11;
        const T v16 = wf_looked_up<T>(g, k12, k13, v15);
        const T v17 = (v1 + v16) & k14;
        return v17;
    });
}

/* 6049d5a226d9 */
WF_NATIVE(wf_native_63) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v4 = wf_drawn<T>(g, k1, k2);
    const T v6 = wf_drawn<T>(g, k3, k4);
    const T v7 = v6 * k5;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = v1 + v2;
        const T v5 = v3 + v4;
        const T v8 = (T)((S)v5 >> (v7 & (8 * sizeof(T) - 1)));
        const T v9 = v8 & k6;
        return v9;
    });
}

/* 60980ce102d3 */
WF_NATIVE(wf_native_64) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = v3 - k6;
    const T v5 = v4 - k7;
    const T v6 = (T)((S)v5 >> (k8 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k9;
    const T v8 = wf_looked_up<T>(g, k10, k11, v7);
    const T v10 = wf_drawn<T>(g, k13, k14);
    const T v11 = v10 + k15;
    const T v12 = v0 ^ v11;
    const T v15 = v6 - k18;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v9 = (v2 | v8) & k12;
        const T v13 = e.beside(line, k16);
        const T v14 = v13 & k17;
        const T v16 = (v13) & k19;
        const T v17 = (v16 >> (k20 & (8 * sizeof(T) - 1))) & k21;
        const T v18 = v17 & k22;
        const T v19 = v15 - v18;
        const T v20 = v19 - k23;
        const T v21 = wf_looked_up<T>(g, k24, k25, v20);
        const T v22 = (v14 | v21) & k26;
        const T v23 = v13 & k27;
        const T v24 = v22 * v23;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v24);
        (void)e;
    });
}

/* 60ecbb45246f */
WF_NATIVE(wf_native_65) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T k37 = wf_numbered<T>(g, 37);
    const T k38 = wf_numbered<T>(g, 38);
    const T k39 = wf_numbered<T>(g, 39);
    const T k40 = wf_numbered<T>(g, 40);
    const T k41 = wf_numbered<T>(g, 41);
    const T k42 = wf_numbered<T>(g, 42);
    const T k43 = wf_numbered<T>(g, 43);
    const T k44 = wf_numbered<T>(g, 44);
    const T k45 = wf_numbered<T>(g, 45);
    const T k46 = wf_numbered<T>(g, 46);
    const T k47 = wf_numbered<T>(g, 47);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = wf_looked_up<T>(g, k6, k7, v3);
    const T v5 = wf_drawn<T>(g, k8, k9);
    const T v6 = (T)((S)v5 >> (k10 & (8 * sizeof(T) - 1)));
    const T v7 = v5 & k11;
    const T v8 = wf_drawn<T>(g, k12, k13);
    const T v9 = wf_looked_up<T>(g, k14, k15, v8);
    const T v10 = wf_drawn<T>(g, k16, k17);
    const T v11 = (T)((S)v10 >> (k18 & (8 * sizeof(T) - 1)));
    const T v12 = v10 & k19;
    const T v13 = wf_drawn<T>(g, k20, k21);
    const T v14 = wf_looked_up<T>(g, k22, k23, v13);
    const T v15 = wf_drawn<T>(g, k24, k25);
    const T v16 = (T)((S)v15 >> (k26 & (8 * sizeof(T) - 1)));
    const T v17 = v15 & k27;
    const T v18 = wf_drawn<T>(g, k28, k29);
    const T v19 = wf_looked_up<T>(g, k30, k31, v18);
    const T v20 = wf_drawn<T>(g, k32, k33);
    const T v21 = (T)((S)v20 >> (k34 & (8 * sizeof(T) - 1)));
    const T v22 = v20 & k35;
    const T v23 = wf_drawn<T>(g, k36, k37);
    const T v24 = wf_looked_up<T>(g, k38, k39, v23);
    const T v25 = wf_drawn<T>(g, k40, k41);
    const T v26 = (T)((S)v25 >> (k42 & (8 * sizeof(T) - 1)));
    const T v27 = v25 & k43;
    const T v28 = wf_drawn<T>(g, k44, k45);
    const T v29 = wf_looked_up<T>(g, k46, k47, v28);
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v2, v4);
        wf_put<T, 0>(g, v6, v7, v9);
        wf_put<T, 0>(g, v11, v12, v14);
        wf_put<T, 0>(g, v16, v17, v19);
        wf_put<T, 0>(g, v21, v22, v24);
        wf_put<T, 0>(g, v26, v27, v29);
    }
}

/* 62a009e57f1c */
WF_NATIVE(wf_native_66) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = e.position();
        const T v2 = v1 - k0;
        const T v3 = v2 & k1;
        const T v4 = e.beside(e.line(), v3);
        const T v5 = v0 & v4;
        return v5;
    });
}

/* 63814a0e948a */
WF_NATIVE(wf_native_67) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = v0 - k0;
        const T v2 = v1 & k1;
        const T v3 = e.beside(e.line(), v2);
        const T v4 = v3 ^ k2;
        const T v5 = v4 - k3;
        const T v6 = e.noise();
        const T v7 = v6 & k4;
        const T v8 = (T)((S)v5 >> (v7 & (8 * sizeof(T) - 1)));
        const T v9 = v8 & k5;
        return v9;
    });
}

/* 6688250fcdfc */
WF_NATIVE(wf_native_68) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 * k1;
        return v2;
    });
}

/* 67bbd9a13774 */
WF_NATIVE(wf_native_69) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_windowed(filling, places, base, image, lane, lanes, k0, k1);
}

/* 6835423a852d */
WF_NATIVE(wf_native_70) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    const T v4 = v3 - k4;
    const T v5 = wf_looked_up<T>(g, k5, k6, v4);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v6 = (v1 + v5) & k7;
        return v6;
    });
}

/* 6996c629c52b */
WF_NATIVE(wf_native_71) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v11 = wf_drawn<T>(g, k13, k14);
    const T v12 = v11 + k15;
    const T v13 = v0 ^ v12;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = (v2 + v8) & k11;
        const T v10 = v9 | k12;
        wf_put<T, 0>(g, line, v0, v10);
        wf_put<T, 0>(g, line, v13, v10);
        (void)e;
    });
}

/* 6a7be3f816bf */
WF_NATIVE(wf_native_72) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = v22 | k17;
        return v23;
    });
}

/* 6aa185d71d75 */
WF_NATIVE(wf_native_73) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v9 = e.beside(line, v8);
        const T v10 = v9 & k8;
        const T v11 = e.beside(line, v0);
        const T v12 = v11 | k9;
        wf_put<T, 0>(g, line, v8, v10);
        wf_put<T, 0>(g, line, v0, v12);
        wf_put<T, 0>(g, line, v3, v12);
        (void)e;
    });
}

/* 6abf081343ca */
WF_NATIVE(wf_native_74) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = wf_looked_up<T>(g, k1, k2, v1);
        return v2;
    });
}

/* 6b4198688df6 */
WF_NATIVE(wf_native_75) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = v0 + k0;
        const T v2 = wf_drawn<T>(g, v1, k1);
        const T v3 = (v2) & k2;
        const T v4 = v3 ^ k3;
        return v4;
    });
}

/* 6bf598db8571 */
WF_NATIVE(wf_native_76) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = k5 - v2;
    const T v4 = v3 - k6;
    const T v5 = wf_looked_up<T>(g, k7, k8, v4);
    const T v6 = wf_drawn<T>(g, k9, k10);
    const T v7 = v6 + k11;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v9 = e.beside(line, k12);
        const T v10 = v9 & k13;
        const T v11 = line;
        const T v12 = v11 & k14;
        const T v13 = v12 + k15;
        const T v14 = v13 - k16;
        const T v15 = wf_looked_up<T>(g, k17, k18, v14);
        const T v16 = v10 | v15;
        wf_put<T, 0>(g, line, v0, v5);
        wf_put<T, 0>(g, line, v8, v16);
        (void)e;
    });
}

/* 6c365316246b */
WF_NATIVE(wf_native_77) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 - k1) & k2;
        const T v3 = v2 & k3;
        return v3;
    });
}

/* 6cf1a5e64b3d */
WF_NATIVE(wf_native_78) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = k4 - k5;
    const T v4 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
    const T v5 = v4 - k7;
    const T v6 = wf_looked_up<T>(g, k8, k9, v5);
    const T v8 = wf_drawn<T>(g, k11, k12);
    const T v9 = v8 + k13;
    const T v10 = v0 ^ v9;
    const T v13 = v4 - k16;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 & k3;
        const T v7 = (v2 | v6) & k10;
        const T v11 = e.beside(line, k14);
        const T v12 = v11 & k15;
        const T v14 = (v11) & k17;
        const T v15 = (v14 >> (k18 & (8 * sizeof(T) - 1))) & k19;
        const T v16 = v15 & k20;
        const T v17 = v13 - v16;
        const T v18 = v17 - k21;
        const T v19 = wf_looked_up<T>(g, k22, k23, v18);
        const T v20 = (v12 | v19) & k24;
        const T v21 = v11 & k25;
        const T v22 = v20 * v21;
        wf_put<T, 0>(g, line, v0, v7);
        wf_put<T, 0>(g, line, v10, v22);
        (void)e;
    });
}

/* 6f8dfc9c032b */
WF_NATIVE(wf_native_79) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = wf_looked_up<T>(g, k17, k18, v22);
        return v23;
    });
}

/* 71a745928c35 */
WF_NATIVE(wf_native_80) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 | k1;
        return v2;
    });
}

/* 71d961c986b9 */
WF_NATIVE(wf_native_81) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = (T)((S)v0 >> (k1 & (8 * sizeof(T) - 1)));
        const T v2 = v1 & k2;
        const T v3 = v0 & k3;
        const T v4 = k4 << (v3 & (8 * sizeof(T) - 1));
        wf_put<T, 0>(g, line, v2, v4);
        (void)e;
    });
}

/* 730ea782559b */
WF_NATIVE(wf_native_82) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = (v22 - k17) & k18;
        const T v24 = v23 & k19;
        return v24;
    });
}

/* 73751407ff76 */
WF_NATIVE(wf_native_83) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = (T)((S)v1 >> (k3 & (8 * sizeof(T) - 1)));
    const T v3 = v1 & k4;
    const T v4 = v0 & k5;
    const T v5 = k6 << (v4 & (8 * sizeof(T) - 1));
    if (lane == 0) {
        wf_put<T, 0>(g, v2, v3, v5);
    }
}

/* 73c5f4e37ac0 */
WF_NATIVE(wf_native_84) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = (T)((S)v0 >> (k1 & (8 * sizeof(T) - 1)));
        const T v2 = v1 & k2;
        const T v3 = v0 & k3;
        const T v4 = k4 << (v3 & (8 * sizeof(T) - 1));
        const T v5 = v4 ^ k5;
        wf_put<T, 0>(g, line, v2, v5);
        (void)e;
    });
}

/* 742521d68b5f */
WF_NATIVE(wf_native_85) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = v0 & k0;
        const T v2 = (T)(v1 == k1);
        const T v3 = e.noise();
        const T v4 = v2 ? v3 : k2;
        return v4;
    });
}

/* 743a06b6e916 */
WF_NATIVE(wf_native_86) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    const T v4 = v3 + k4;
    const T v5 = v4 - k5;
    const T v6 = wf_looked_up<T>(g, k6, k7, v5);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v7 = (v1 + v6) & k8;
        return v7;
    });
}

/* 74e2c6158375 */
WF_NATIVE(wf_native_87) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T k37 = wf_numbered<T>(g, 37);
    const T k38 = wf_numbered<T>(g, 38);
    const T k39 = wf_numbered<T>(g, 39);
    const T k40 = wf_numbered<T>(g, 40);
    const T k41 = wf_numbered<T>(g, 41);
    const T k42 = wf_numbered<T>(g, 42);
    const T k43 = wf_numbered<T>(g, 43);
    const T k44 = wf_numbered<T>(g, 44);
    const T k45 = wf_numbered<T>(g, 45);
    const T k46 = wf_numbered<T>(g, 46);
    const T k47 = wf_numbered<T>(g, 47);
    const T k48 = wf_numbered<T>(g, 48);
    const T k49 = wf_numbered<T>(g, 49);
    const T k50 = wf_numbered<T>(g, 50);
    const T k51 = wf_numbered<T>(g, 51);
    const T k52 = wf_numbered<T>(g, 52);
    const T k53 = wf_numbered<T>(g, 53);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = v3 & k6;
    const T v5 = wf_looked_up<T>(g, k7, k8, v4);
    const T v6 = wf_drawn<T>(g, k9, k10);
    const T v7 = (T)((S)v6 >> (k11 & (8 * sizeof(T) - 1)));
    const T v8 = v6 & k12;
    const T v9 = wf_drawn<T>(g, k13, k14);
    const T v10 = v9 & k15;
    const T v11 = wf_looked_up<T>(g, k16, k17, v10);
    const T v12 = wf_drawn<T>(g, k18, k19);
    const T v13 = (T)((S)v12 >> (k20 & (8 * sizeof(T) - 1)));
    const T v14 = v12 & k21;
    const T v15 = wf_drawn<T>(g, k22, k23);
    const T v16 = v15 & k24;
    const T v17 = wf_looked_up<T>(g, k25, k26, v16);
    const T v18 = wf_drawn<T>(g, k27, k28);
    const T v19 = (T)((S)v18 >> (k29 & (8 * sizeof(T) - 1)));
    const T v20 = v18 & k30;
    const T v21 = wf_drawn<T>(g, k31, k32);
    const T v22 = v21 & k33;
    const T v23 = wf_looked_up<T>(g, k34, k35, v22);
    const T v24 = wf_drawn<T>(g, k36, k37);
    const T v25 = (T)((S)v24 >> (k38 & (8 * sizeof(T) - 1)));
    const T v26 = v24 & k39;
    const T v27 = wf_drawn<T>(g, k40, k41);
    const T v28 = v27 & k42;
    const T v29 = wf_looked_up<T>(g, k43, k44, v28);
    const T v30 = wf_drawn<T>(g, k45, k46);
    const T v31 = (T)((S)v30 >> (k47 & (8 * sizeof(T) - 1)));
    const T v32 = v30 & k48;
    const T v33 = wf_drawn<T>(g, k49, k50);
    const T v34 = v33 & k51;
    const T v35 = wf_looked_up<T>(g, k52, k53, v34);
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v2, v5);
        wf_put<T, 0>(g, v7, v8, v11);
        wf_put<T, 0>(g, v13, v14, v17);
        wf_put<T, 0>(g, v19, v20, v23);
        wf_put<T, 0>(g, v25, v26, v29);
        wf_put<T, 0>(g, v31, v32, v35);
    }
}

/* 74f8b552ff7d */
WF_NATIVE(wf_native_88) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = wf_looked_up<T>(g, k1, k2, v1);
        return v2;
    });
}

/* 75d0e2c43605 */
WF_NATIVE(wf_native_89) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = wf_looked_up<T>(g, k6, k7, v3);
    const T v5 = wf_drawn<T>(g, k8, k9);
    const T v6 = wf_drawn<T>(g, k10, k11);
    const T v7 = wf_drawn<T>(g, k12, k13);
    const T v8 = v7 & k14;
    const T v9 = wf_looked_up<T>(g, k15, k16, v8);
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v2, v4);
        wf_put<T, 0>(g, v5, v6, v9);
    }
}

/* 7616886b8ec6 */
WF_NATIVE(wf_native_90) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v2 = wf_looked_up<T>(g, k2, k3, v1);
    const T v4 = wf_looked_up<T>(g, k5, k6, v1);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v3 = (v0 & v2) & k4;
        const T v5 = (v3 + v4) & k7;
        return v5;
    });
}

/* 775cd36432e3 */
WF_NATIVE(wf_native_91) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T v5 = wf_drawn<T>(g, k4, k5);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = e.beside(line, k2);
        const T v3 = v2 & k3;
        const T v4 = line;
        const T v6 = v4 + v5;
        const T v7 = (T)((S)v6 < (S)k6);
        const T v8 = v7 ^ k7;
        const T v9 = v8 * k8;
        const T v10 = v6 - v9;
        const T v11 = v10 - k9;
        const T v12 = v11 - k10;
        const T v13 = wf_looked_up<T>(g, k11, k12, v12);
        const T v14 = v3 + v13;
        const T v15 = e.beside(line, k13);
        const T v16 = v15 & k14;
        const T v17 = v16 * k15;
        const T v18 = (T)((S)v17 >> (k16 & (8 * sizeof(T) - 1)));
        const T v19 = v18 + k17;
        const T v20 = v1 ^ v19;
        const T v21 = v14 ^ k18;
        wf_put<T, 0>(g, line, v1, v14);
        wf_put<T, 0>(g, line, v20, v21);
        (void)e;
    });
}

/* 793bd59df454 */
WF_NATIVE(wf_native_92) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = k1 << (v1 & (8 * sizeof(T) - 1));
        return v2;
    });
}

/* 7d1983063483 */
WF_NATIVE(wf_native_93) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v17 = k14 * k15;
    const T v20 = k16 * k17;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = v10 - k9;
        const T v12 = v11 & k10;
        const T v13 = (T)((S)v12 >> (k11 & (8 * sizeof(T) - 1)));
        const T v14 = v13 << (k12 & (8 * sizeof(T) - 1));
        const T v15 = v12 & k13;
        const T v16 = v14 + v15;
        const T v18 = v16 + v17;
        const T v19 = e.beside(e.line(), v18);
        const T v21 = v16 + v20;
        const T v22 = e.beside(e.line(), v21);
        const T v23 = v6 ? v19 : v22;
        const T v24 = v23 ^ k18;
        const T v25 = v24 - k19;
        const T v26 = (T)((S)v10 >> (k20 & (8 * sizeof(T) - 1)));
        const T v27 = v26 << (k21 & (8 * sizeof(T) - 1));
        const T v28 = v10 & k22;
        const T v29 = v27 + v28;
        const T v30 = v29 + v17;
        const T v31 = e.beside(e.line(), v30);
        const T v32 = v29 + v20;
        const T v33 = e.beside(e.line(), v32);
        const T v34 = v6 ? v31 : v33;
        const T v35 = v34 & k23;
        const T v36 = (T)((S)v25 >> (v35 & (8 * sizeof(T) - 1)));
        const T v37 = v36 & k24;
        return v37;
    });
}

/* 7d3015c698c5 */
WF_NATIVE(wf_native_94) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T v8 = wf_drawn<T>(g, k4, k5);
    const T v10 = wf_drawn<T>(g, k6, k7);
    const T v11 = v10 * k8;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = (T)((S)v2 >> (k1 & (8 * sizeof(T) - 1)));
        const T v4 = v3 << (k2 & (8 * sizeof(T) - 1));
        const T v5 = v2 & k3;
        const T v6 = v4 + v5;
        const T v7 = v1 + v6;
        const T v9 = v7 + v8;
        const T v12 = (T)((S)v9 >> (v11 & (8 * sizeof(T) - 1)));
        const T v13 = v12 & k9;
        return v13;
    });
}

/* 7fffc5ae0b61 */
WF_NATIVE(wf_native_95) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 + k3;
    const T v4 = wf_drawn<T>(g, k4, k5);
    const T v5 = v4 + k6;
    const T v6 = v3 - v5;
    const T v7 = v6 - k7;
    const T v8 = v7 + k8;
    const T v9 = (T)((S)v8 >> (k9 & (8 * sizeof(T) - 1)));
    const T v10 = v9 - k10;
    const T v11 = wf_looked_up<T>(g, k11, k12, v10);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v12 = (v1 + v11) & k13;
        return v12;
    });
}

/* 80b4d0e3c628 */
WF_NATIVE(wf_native_96) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v9 = e.beside(line, v8);
        const T v10 = v9 & k8;
        const T v11 = e.beside(line, v0);
        const T v12 = v11 | k9;
        const T v13 = (k10 - v12) & k11;
        const T v14 = v13 & k12;
        wf_put<T, 1>(g, line, v8, v10);
        wf_put<T, 1>(g, line, v0, v12);
        wf_put<T, 1>(g, line, v3, v14);
        (void)e;
    });
}

/* 8247c059c84c */
WF_NATIVE(wf_native_97) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v9 = e.beside(line, v8);
        const T v10 = v9 & k8;
        const T v11 = e.beside(line, v0);
        const T v12 = v11 | k9;
        wf_put<T, 1>(g, line, v8, v10);
        wf_put<T, 1>(g, line, v0, v12);
        wf_put<T, 1>(g, line, v3, v12);
        (void)e;
    });
}

/* 82efe8933343 */
WF_NATIVE(wf_native_98) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v4 = e.position();
        const T v5 = v4 + k4;
        const T v6 = wf_drawn<T>(g, v5, k5);
        const T v7 = v6 & k6;
        const T v8 = v3 - v7;
        const T v9 = (T)((S)v8 >> (k7 & (8 * sizeof(T) - 1)));
        const T v10 = (T)((S)v6 >> (k8 & (8 * sizeof(T) - 1)));
        const T v11 = v10 & k9;
        const T v12 = v9 + v11;
        const T v13 = v12 - k10;
        const T v14 = v13 - k11;
        const T v15 = wf_looked_up<T>(g, k12, k13, v14);
        const T v16 = v1 + v15;
        return v16;
    });
}

/* 8865bdfdf833 */
WF_NATIVE(wf_native_99) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v10 = wf_drawn<T>(g, k12, k13);
    const T v11 = v10 + k14;
    const T v12 = v0 ^ v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = (v2 + v8) & k11;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v9);
        (void)e;
    });
}

/* 899d4899013d */
WF_NATIVE(wf_native_100) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (T)(v1 == k1);
        const T v3 = v2 << (k2 & (8 * sizeof(T) - 1));
        const T v4 = (v0 ^ v3) & k3;
        return v4;
    });
}

/* 8a618826d77c */
WF_NATIVE(wf_native_101) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v24 = v22 | v23;
        const T v25 = v24 * k19;
        const T v26 = (v25 + k20) & k21;
        const T v27 = v26 & k22;
        return v27;
    });
}

/* 8a8d80452b23 */
WF_NATIVE(wf_native_102) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v22 = wf_drawn<T>(g, k16, k17);
    const T v23 = wf_looked_up<T>(g, k18, k19, v22);
    const T v25 = wf_looked_up<T>(g, k20, k21, v22);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v24 = v21 & v23;
        const T v26 = v24 + v25;
        return v26;
    });
}

/* 8b49442dedff */
WF_NATIVE(wf_native_103) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T k37 = wf_numbered<T>(g, 37);
    const T k38 = wf_numbered<T>(g, 38);
    const T k39 = wf_numbered<T>(g, 39);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = v7 + k9;
    const T v9 = k10 - v8;
    const T v10 = v9 - k11;
    const T v11 = wf_looked_up<T>(g, k12, k13, v10);
    const T v12 = k14 * k15;
    const T v13 = v4 + v12;
    const T v14 = wf_drawn<T>(g, k16, k17);
    const T v15 = v14 + k18;
    const T v16 = v0 ^ v15;
    const T v17 = (T)((S)v16 >> (k19 & (8 * sizeof(T) - 1)));
    const T v18 = v17 << (k20 & (8 * sizeof(T) - 1));
    const T v19 = v16 & k21;
    const T v20 = v18 + v19;
    const T v21 = v20 + v5;
    const T v22 = wf_drawn<T>(g, k22, k23);
    const T v23 = (T)((S)v22 >> (k24 & (8 * sizeof(T) - 1)));
    const T v24 = v23 ^ k25;
    const T v25 = v24 & k26;
    const T v26 = (T)((S)k27 >> (k28 & (8 * sizeof(T) - 1)));
    const T v27 = v26 << (k29 & (8 * sizeof(T) - 1));
    const T v28 = k30 & k31;
    const T v29 = v27 + v28;
    const T v30 = v29 + v12;
    const T v32 = v29 + v5;
    const T v42 = v20 + v12;
    const T v43 = v24 & k38;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v31 = e.beside(line, v30);
        const T v33 = e.beside(line, v32);
        const T v34 = v25 ? v31 : v33;
        const T v35 = v34 & k32;
        const T v36 = line;
        const T v37 = v36 & k33;
        const T v38 = v37 + k34;
        const T v39 = v38 - k35;
        const T v40 = wf_looked_up<T>(g, k36, k37, v39);
        const T v41 = v35 | v40;
        const T v44 = v43 ? v31 : v33;
        const T v45 = v44 & k39;
        const T v46 = v45 | v40;
        wf_put<T, 0>(g, line, v6, v11);
        wf_put<T, 0>(g, line, v13, v11);
        wf_put<T, 0>(g, line, v21, v41);
        wf_put<T, 0>(g, line, v42, v46);
        (void)e;
    });
}

/* 8c3e2a2c2c91 */
WF_NATIVE(wf_native_104) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v14 = wf_drawn<T>(g, k17, k18);
    const T v15 = v14 + k19;
    const T v16 = v0 ^ v15;
    const T v22 = (T)(v14 == k26);
    const T v23 = v22 ? k27 : v15;
    const T v24 = v23 + k28;
    const T v25 = v0 ^ v24;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = v1 >> (k3 & (8 * sizeof(T) - 1));
        const T v3 = v2 & k4;
        const T v4 = v3 * k5;
        const T v5 = (T)((S)v4 >> (k6 & (8 * sizeof(T) - 1)));
        const T v6 = wf_looked_up<T>(g, k7, k8, v5);
        const T v7 = wf_looked_up<T>(g, k9, k10, v5);
        const T v8 = k11 - v7;
        const T v9 = (v8) & k12;
        const T v10 = (v9 << (k13 & (8 * sizeof(T) - 1))) & k14;
        const T v11 = (v6 + v10) & k15;
        const T v12 = v1 & k16;
        const T v13 = v11 | v12;
        const T v17 = v8 - k20;
        const T v18 = (v17) & k21;
        const T v19 = (v18 << (k22 & (8 * sizeof(T) - 1))) & k23;
        const T v20 = (v19 + k24) & k25;
        const T v21 = v20 | v12;
        wf_put<T, 0>(g, line, v0, v13);
        wf_put<T, 0>(g, line, v16, v21);
        wf_put<T, 0>(g, line, v25, v21);
        (void)e;
    });
}

/* 8ca33b85e355 */
WF_NATIVE(wf_native_105) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v0 ^ v4;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 | k2;
        const T v6 = (k6 - v2) & k7;
        const T v7 = v6 & k8;
        wf_put<T, 1>(g, line, v0, v2);
        wf_put<T, 1>(g, line, v5, v7);
        (void)e;
    });
}

/* 903acf475d1b */
WF_NATIVE(wf_native_106) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 - k2;
    const T v2 = v1 + k3;
    const T v3 = v2 - k4;
    const T v4 = wf_looked_up<T>(g, k5, k6, v3);
    wf_windowed(filling, places, base, image, lane, lanes, k7, v4);
}

/* 92b52ad51cf1 */
WF_NATIVE(wf_native_107) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = v0 + k0;
        const T v2 = wf_drawn<T>(g, v1, k1);
        const T v3 = (v2) & k2;
        return v3;
    });
}

/* 94cb1376f267 */
WF_NATIVE(wf_native_108) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 + k1) & k2;
        return v2;
    });
}

/* 9595e19d6158 */
WF_NATIVE(wf_native_109) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = v1 + v2;
        const T v4 = v3 << (k1 & (8 * sizeof(T) - 1));
        return v4;
    });
}

/* 9f9d12891bff */
WF_NATIVE(wf_native_110) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.beside(e.line(), k0);
        const T v1 = v0 & k1;
        const T v2 = v1 + k2;
        return v2;
    });
}

/* a1c727e122f2 */
WF_NATIVE(wf_native_111) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v6 = wf_drawn<T>(g, k2, k3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = e.line();
        const T v3 = v2 * k1;
        const T v4 = e.position();
        const T v5 = v3 + v4;
        const T v7 = v5 + v6;
        const T v8 = v7 & k4;
        const T v9 = v8 << (k5 & (8 * sizeof(T) - 1));
        const T v10 = v9 + k6;
        const T v11 = v1 + v10;
        return v11;
    });
}

/* a3ff483d82df */
WF_NATIVE(wf_native_112) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = k7 - k8;
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v7 - v8;
    const T v10 = v9 - k10;
    const T v11 = wf_looked_up<T>(g, k11, k12, v10);
    const T v12 = k13 * k14;
    const T v13 = v4 + v12;
    const T v14 = wf_drawn<T>(g, k15, k16);
    const T v15 = v14 + k17;
    const T v16 = v0 ^ v15;
    const T v17 = (T)((S)v16 >> (k18 & (8 * sizeof(T) - 1)));
    const T v18 = v17 << (k19 & (8 * sizeof(T) - 1));
    const T v19 = v16 & k20;
    const T v20 = v18 + v19;
    const T v21 = v20 + v5;
    const T v22 = v20 + v12;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v6, v11);
        wf_put<T, 0>(g, line, v13, v11);
        wf_put<T, 0>(g, line, v21, v11);
        wf_put<T, 0>(g, line, v22, v11);
        (void)e;
    });
}

/* a49bf72ed5ac */
WF_NATIVE(wf_native_113) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = k2 - k3;
    const T v2 = (T)((S)v1 >> (k4 & (8 * sizeof(T) - 1)));
    const T v3 = v1 - v2;
    const T v4 = v3 - k5;
    const T v5 = wf_looked_up<T>(g, k6, k7, v4);
    const T v6 = wf_drawn<T>(g, k8, k9);
    const T v7 = v6 + k10;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v0, v5);
        wf_put<T, 0>(g, line, v8, v5);
        (void)e;
    });
}

/* a555058ba30b */
WF_NATIVE(wf_native_114) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v6 = wf_drawn<T>(g, k9, k10);
    const T v7 = v6 + k11;
    const T v8 = (v7) & k12;
    const T v9 = (v8 << (k13 & (8 * sizeof(T) - 1))) & k14;
    const T v13 = wf_drawn<T>(g, k18, k19);
    const T v14 = v13 + k20;
    const T v15 = v0 ^ v14;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, k2);
        const T v2 = (v1) & k3;
        const T v3 = (v2 >> (k4 & (8 * sizeof(T) - 1))) & k5;
        const T v4 = v3 & k6;
        const T v5 = wf_looked_up<T>(g, k7, k8, v4);
        const T v10 = (v5 + v9) & k15;
        const T v11 = v1 & k16;
        const T v12 = (v10 | v11) & k17;
        const T v16 = e.beside(line, k21);
        const T v17 = v16 & k22;
        const T v18 = (v16) & k23;
        const T v19 = (v18 >> (k24 & (8 * sizeof(T) - 1))) & k25;
        const T v20 = v19 & k26;
        const T v21 = k27 - v20;
        const T v22 = v21 - k28;
        const T v23 = wf_looked_up<T>(g, k29, k30, v22);
        const T v24 = (v17 | v23) & k31;
        wf_put<T, 0>(g, line, v0, v12);
        wf_put<T, 0>(g, line, v15, v24);
        (void)e;
    });
}

/* a59ba92c34e9 */
WF_NATIVE(wf_native_115) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = (v22 - k17) & k18;
        const T v24 = v23 & k19;
        const T v25 = v24 | k20;
        return v25;
    });
}

/* a72be60bd18a */
WF_NATIVE(wf_native_116) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v2 = wf_drawn<T>(g, k1, k2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v3 = v1 | v2;
        const T v4 = v3 * k3;
        const T v5 = v4 + k4;
        const T v6 = v5 & k5;
        return v6;
    });
}

/* a8365770df79 */
WF_NATIVE(wf_native_117) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v2 = wf_drawn<T>(g, k1, k2);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v3 = v1 | v2;
        const T v4 = v3 * k3;
        const T v5 = v4 + k4;
        const T v6 = v5 & k5;
        return v6;
    });
}

/* aa45eb6fc00d */
WF_NATIVE(wf_native_118) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = (T)((S)v2 >> (k4 & (8 * sizeof(T) - 1)));
    const T v4 = v3 << (k5 & (8 * sizeof(T) - 1));
    const T v5 = v2 & k6;
    const T v6 = v4 + v5;
    const T v7 = k7 * k8;
    const T v8 = v6 + v7;
    const T v9 = wf_drawn<T>(g, k9, k10);
    const T v10 = wf_looked_up<T>(g, k11, k12, v9);
    const T v11 = k13 * k14;
    const T v12 = v6 + v11;
    const T v13 = wf_drawn<T>(g, k15, k16);
    const T v14 = wf_drawn<T>(g, k17, k18);
    const T v15 = (T)((S)v14 >> (k19 & (8 * sizeof(T) - 1)));
    const T v16 = v15 << (k20 & (8 * sizeof(T) - 1));
    const T v17 = v14 & k21;
    const T v18 = v16 + v17;
    const T v19 = v18 + v7;
    const T v20 = wf_drawn<T>(g, k22, k23);
    const T v21 = v20 & k24;
    const T v22 = wf_looked_up<T>(g, k25, k26, v21);
    const T v23 = v18 + v11;
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v8, v10);
        wf_put<T, 0>(g, v1, v12, v10);
        wf_put<T, 0>(g, v13, v19, v22);
        wf_put<T, 0>(g, v13, v23, v22);
    }
}

/* aa50f192fdad */
WF_NATIVE(wf_native_119) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v2 = wf_drawn<T>(g, k1, k2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v3 = v1 | v2;
        const T v4 = v3 * k3;
        const T v5 = (v4 + k4) & k5;
        const T v6 = v5 & k6;
        return v6;
    });
}

/* aaca021ce9dd */
WF_NATIVE(wf_native_120) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = k2 - v0;
    const T v2 = wf_looked_up<T>(g, k3, k4, v1);
    const T v3 = wf_looked_up<T>(g, k5, k6, v1);
    wf_windowed(filling, places, base, image, lane, lanes, v2, v3);
}

/* af6a4cfcbf11 */
WF_NATIVE(wf_native_121) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = (T)((S)v1 >> (k2 & (8 * sizeof(T) - 1)));
        const T v3 = v2 & k3;
        const T v4 = e.beside(line, v3);
        const T v5 = v4 & k4;
        const T v6 = (v5 + k5) & k6;
        const T v7 = v1 & k7;
        const T v8 = v7 ? k8 : k9;
        const T v9 = v6 | v8;
        wf_put<T, 0>(g, line, v3, v9);
        (void)e;
    });
}

/* b097cb97ec54 */
WF_NATIVE(wf_native_122) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (v1 + k1) & k2;
        const T v3 = (v0) & k3;
        const T v4 = (v3 >> (k4 & (8 * sizeof(T) - 1))) & k5;
        const T v5 = v4 & k6;
        const T v6 = v5 * k7;
        const T v7 = v2 | v6;
        return v7;
    });
}

/* b11cfa0da339 */
WF_NATIVE(wf_native_123) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 + k2;
    const T v2 = wf_drawn<T>(g, k3, k4);
    const T v3 = v2 + k5;
    const T v4 = v1 - v3;
    const T v5 = v4 - k6;
    const T v6 = v5 + k7;
    const T v7 = (T)((S)v6 >> (k8 & (8 * sizeof(T) - 1)));
    const T v8 = v7 - k9;
    const T v9 = wf_looked_up<T>(g, k10, k11, v8);
    wf_windowed(filling, places, base, image, lane, lanes, k12, v9);
}

/* b14749343277 */
WF_NATIVE(wf_native_124) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.position();
        const T v1 = v0 - k0;
        const T v2 = v1 & k1;
        const T v3 = e.beside(e.line(), v2);
        const T v4 = v3 ^ k2;
        const T v5 = v4 - k3;
        const T v6 = e.noise();
        const T v7 = v6 & k4;
        const T v8 = (T)((S)v5 >> (v7 & (8 * sizeof(T) - 1)));
        const T v9 = v8 & k5;
        return v9;
    });
}

/* b18b4620546d */
WF_NATIVE(wf_native_125) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v10 = wf_drawn<T>(g, k12, k13);
    const T v11 = v10 + k14;
    const T v12 = v0 ^ v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = (v2 + v8) & k11;
        const T v13 = v9 ^ k15;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v13);
        (void)e;
    });
}

/* b22772b89f8e */
WF_NATIVE(wf_native_126) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = v1 | k1;
        return v2;
    });
}

/* b69348064d2e */
WF_NATIVE(wf_native_127) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v24 = v22 | v23;
        const T v25 = v24 * k19;
        const T v26 = v25 + k20;
        const T v27 = v26 & k21;
        return v27;
    });
}

/* b73c695288bf */
WF_NATIVE(wf_native_128) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T v5 = wf_drawn<T>(g, k4, k5);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = v0 & k1;
        const T v2 = e.beside(line, k2);
        const T v3 = v2 & k3;
        const T v4 = line;
        const T v6 = v4 + v5;
        const T v7 = (T)((S)v6 < (S)k6);
        const T v8 = v7 ^ k7;
        const T v9 = v8 * k8;
        const T v10 = v6 - v9;
        const T v11 = v10 - k9;
        const T v12 = v11 - k10;
        const T v13 = wf_looked_up<T>(g, k11, k12, v12);
        const T v14 = (v3 + v13) & k13;
        const T v15 = e.beside(line, k14);
        const T v16 = v15 & k15;
        const T v17 = v16 * k16;
        const T v18 = (T)((S)v17 >> (k17 & (8 * sizeof(T) - 1)));
        const T v19 = v18 + k18;
        const T v20 = v1 ^ v19;
        const T v21 = v14 ^ k19;
        wf_put<T, 0>(g, line, v1, v14);
        wf_put<T, 0>(g, line, v20, v21);
        (void)e;
    });
}

/* b821021df086 */
WF_NATIVE(wf_native_129) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v2 = wf_looked_up<T>(g, k2, k3, v1);
    const T v4 = wf_drawn<T>(g, k5, k6);
    const T v5 = v4 + k7;
    const T v6 = wf_drawn<T>(g, k8, k9);
    const T v7 = v6 + k10;
    const T v8 = v5 - v7;
    const T v9 = v8 - k11;
    const T v10 = v9 - k12;
    const T v11 = wf_looked_up<T>(g, k13, k14, v10);
    const T v12 = v1 ? v11 : k15;
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v3 = (v0 & v2) & k4;
        const T v13 = (v3 + v12) & k16;
        return v13;
    });
}

/* b877659ec52c */
WF_NATIVE(wf_native_130) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        return k0;
    });
}

/* b9d40faf2d93 */
WF_NATIVE(wf_native_131) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    wf_windowed(filling, places, base, image, lane, lanes, k0, 0);
}

/* bb9aece64957 */
WF_NATIVE(wf_native_132) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = v9 & k15;
    const T v20 = wf_drawn<T>(g, k17, k18);
    const T v21 = v20 + k19;
    const T v22 = v0 ^ v21;
    const T v23 = (T)((S)v22 >> (k20 & (8 * sizeof(T) - 1)));
    const T v24 = v23 << (k21 & (8 * sizeof(T) - 1));
    const T v25 = v22 & k22;
    const T v26 = v24 + v25;
    const T v27 = v26 + v5;
    const T v30 = v26 + v11;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 | k14;
        const T v18 = v17 ? v13 : v14;
        const T v19 = v18 | k16;
        const T v28 = (k23 - v16) & k24;
        const T v29 = v28 & k25;
        const T v31 = (k26 - v19) & k27;
        const T v32 = v31 & k28;
        wf_put<T, 1>(g, line, v6, v16);
        wf_put<T, 1>(g, line, v12, v19);
        wf_put<T, 1>(g, line, v27, v29);
        wf_put<T, 1>(g, line, v30, v32);
        (void)e;
    });
}

/* bbac94661e23 */
WF_NATIVE(wf_native_133) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = wf_looked_up<T>(g, k6, k7, v3);
    const T v5 = wf_drawn<T>(g, k8, k9);
    const T v6 = wf_drawn<T>(g, k10, k11);
    const T v7 = wf_drawn<T>(g, k12, k13);
    const T v8 = v7 & k14;
    const T v9 = wf_looked_up<T>(g, k15, k16, v8);
    if (lane == 0) {
        wf_put<T, 0>(g, v1, v2, v4);
        wf_put<T, 0>(g, v5, v6, v9);
    }
}

/* bcf045a85525 */
WF_NATIVE(wf_native_134) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = wf_looked_up<T>(g, k0, k1, v0);
        return v1;
    });
}

/* bdac4ed6fff7 */
WF_NATIVE(wf_native_135) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = e.line();
        const T v23 = v22 & k16;
        const T v24 = wf_looked_up<T>(g, k17, k18, v23);
        const T v25 = v21 & v24;
        const T v26 = wf_looked_up<T>(g, k19, k20, v23);
        const T v27 = v25 + v26;
        return v27;
    });
}

/* be7c4e41ca3e */
WF_NATIVE(wf_native_136) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v9 = e.beside(line, v8);
        const T v10 = v9 & k8;
        const T v11 = e.beside(line, v0);
        const T v12 = v11 | k9;
        const T v13 = (k10 - v12) & k11;
        const T v14 = v13 & k12;
        wf_put<T, 0>(g, line, v8, v10);
        wf_put<T, 0>(g, line, v0, v12);
        wf_put<T, 0>(g, line, v3, v14);
        (void)e;
    });
}

/* c01d50520cb9 */
WF_NATIVE(wf_native_137) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T k33 = wf_numbered<T>(g, 33);
    const T k34 = wf_numbered<T>(g, 34);
    const T k35 = wf_numbered<T>(g, 35);
    const T k36 = wf_numbered<T>(g, 36);
    const T k37 = wf_numbered<T>(g, 37);
    const T k38 = wf_numbered<T>(g, 38);
    const T k39 = wf_numbered<T>(g, 39);
    const T k40 = wf_numbered<T>(g, 40);
    const T k41 = wf_numbered<T>(g, 41);
    const T k42 = wf_numbered<T>(g, 42);
    const T k43 = wf_numbered<T>(g, 43);
    const T k44 = wf_numbered<T>(g, 44);
    const T k45 = wf_numbered<T>(g, 45);
    const T k46 = wf_numbered<T>(g, 46);
    const T k47 = wf_numbered<T>(g, 47);
    const T k48 = wf_numbered<T>(g, 48);
    const T k49 = wf_numbered<T>(g, 49);
    const T k50 = wf_numbered<T>(g, 50);
    const T k51 = wf_numbered<T>(g, 51);
    const T k52 = wf_numbered<T>(g, 52);
    const T k53 = wf_numbered<T>(g, 53);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v0 & k3;
    const T v3 = wf_drawn<T>(g, k4, k5);
    const T v4 = v3 & k6;
    const T v5 = wf_looked_up<T>(g, k7, k8, v4);
    const T v6 = wf_drawn<T>(g, k9, k10);
    const T v7 = (T)((S)v6 >> (k11 & (8 * sizeof(T) - 1)));
    const T v8 = v6 & k12;
    const T v9 = wf_drawn<T>(g, k13, k14);
    const T v10 = v9 & k15;
    const T v11 = wf_looked_up<T>(g, k16, k17, v10);
    const T v12 = wf_drawn<T>(g, k18, k19);
    const T v13 = (T)((S)v12 >> (k20 & (8 * sizeof(T) - 1)));
    const T v14 = v12 & k21;
    const T v15 = wf_drawn<T>(g, k22, k23);
    const T v16 = v15 & k24;
    const T v17 = wf_looked_up<T>(g, k25, k26, v16);
    const T v18 = wf_drawn<T>(g, k27, k28);
    const T v19 = (T)((S)v18 >> (k29 & (8 * sizeof(T) - 1)));
    const T v20 = v18 & k30;
    const T v21 = wf_drawn<T>(g, k31, k32);
    const T v22 = v21 & k33;
    const T v23 = wf_looked_up<T>(g, k34, k35, v22);
    const T v24 = wf_drawn<T>(g, k36, k37);
    const T v25 = (T)((S)v24 >> (k38 & (8 * sizeof(T) - 1)));
    const T v26 = v24 & k39;
    const T v27 = wf_drawn<T>(g, k40, k41);
    const T v28 = v27 & k42;
    const T v29 = wf_looked_up<T>(g, k43, k44, v28);
    const T v30 = wf_drawn<T>(g, k45, k46);
    const T v31 = (T)((S)v30 >> (k47 & (8 * sizeof(T) - 1)));
    const T v32 = v30 & k48;
    const T v33 = wf_drawn<T>(g, k49, k50);
    const T v34 = v33 & k51;
    const T v35 = wf_looked_up<T>(g, k52, k53, v34);
    if (lane == 0) {
        wf_put<T, 1>(g, v1, v2, v5);
        wf_put<T, 1>(g, v7, v8, v11);
        wf_put<T, 1>(g, v13, v14, v17);
        wf_put<T, 1>(g, v19, v20, v23);
        wf_put<T, 1>(g, v25, v26, v29);
        wf_put<T, 1>(g, v31, v32, v35);
    }
}

/* c0505750f5cd */
WF_NATIVE(wf_native_138) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v4 = e.position();
        const T v5 = v4 + k4;
        const T v6 = wf_drawn<T>(g, v5, k5);
        const T v7 = v6 & k6;
        const T v8 = v3 - v7;
        const T v9 = (T)((S)v8 >> (k7 & (8 * sizeof(T) - 1)));
        const T v10 = (T)((S)v6 >> (k8 & (8 * sizeof(T) - 1)));
        const T v11 = v10 & k9;
        const T v12 = v9 + v11;
        const T v13 = v12 - k10;
        const T v14 = v8 - v13;
        const T v15 = v14 - k11;
        const T v16 = wf_looked_up<T>(g, k12, k13, v15);
        const T v17 = v1 + v16;
        return v17;
    });
}

/* c1528db3e2ec */
WF_NATIVE(wf_native_139) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = (T)(v1 == k1);
        const T v3 = v2 << (k2 & (8 * sizeof(T) - 1));
        const T v4 = v0 ^ v3;
        return v4;
    });
}

/* c17b450006c7 */
WF_NATIVE(wf_native_140) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    wf_windowed(filling, places, base, image, lane, lanes, ~(T)0, 0);
}

/* c292fb9adfde */
WF_NATIVE(wf_native_141) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v7 = (T)((S)k6 >> (k7 & (8 * sizeof(T) - 1)));
    const T v8 = v7 << (k8 & (8 * sizeof(T) - 1));
    const T v9 = k9 & k10;
    const T v10 = v8 + v9;
    const T v11 = k11 * k12;
    const T v12 = v10 + v11;
    const T v14 = k13 * k14;
    const T v15 = v10 + v14;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v13 = e.beside(e.line(), v12);
        const T v16 = e.beside(e.line(), v15);
        const T v17 = v6 ? v13 : v16;
        const T v18 = v17 & k15;
        const T v19 = v18 + k16;
        return v19;
    });
}

/* c2fe412e476a */
WF_NATIVE(wf_native_142) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v26 = wf_drawn<T>(g, k18, k19);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = e.line();
        const T v24 = v23 * k17;
        const T v25 = v24 + v10;
        const T v27 = (v25 + v26) & k20;
        const T v28 = v27 & k21;
        const T v29 = v28 << (k22 & (8 * sizeof(T) - 1));
        const T v30 = v29 + k23;
        const T v31 = v22 + v30;
        return v31;
    });
}

/* c5b7d4008d9f */
WF_NATIVE(wf_native_143) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v0 ^ v4;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 | k2;
        wf_put<T, 0>(g, line, v0, v2);
        wf_put<T, 0>(g, line, v5, v2);
        (void)e;
    });
}

/* c7f618573dff */
WF_NATIVE(wf_native_144) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = v9 & k15;
    const T v20 = wf_drawn<T>(g, k17, k18);
    const T v21 = v20 + k19;
    const T v22 = v0 ^ v21;
    const T v23 = (T)((S)v22 >> (k20 & (8 * sizeof(T) - 1)));
    const T v24 = v23 << (k21 & (8 * sizeof(T) - 1));
    const T v25 = v22 & k22;
    const T v26 = v24 + v25;
    const T v27 = v26 + v5;
    const T v28 = v26 + v11;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 | k14;
        const T v18 = v17 ? v13 : v14;
        const T v19 = v18 | k16;
        wf_put<T, 1>(g, line, v6, v16);
        wf_put<T, 1>(g, line, v12, v19);
        wf_put<T, 1>(g, line, v27, v16);
        wf_put<T, 1>(g, line, v28, v19);
        (void)e;
    });
}

/* c823deb1a21c */
WF_NATIVE(wf_native_145) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v22 = wf_drawn<T>(g, k16, k17);
    const T v23 = (T)(v22 == k18);
    const T v24 = v23 ? k19 : k20;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v25 = v21 & v24;
        return v25;
    });
}

/* cb38d9a2cca1 */
WF_NATIVE(wf_native_146) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = k17 << (v22 & (8 * sizeof(T) - 1));
        return v23;
    });
}

/* cb89f46040c5 */
WF_NATIVE(wf_native_147) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v11 = wf_drawn<T>(g, k13, k14);
    const T v12 = v11 + k15;
    const T v13 = v0 ^ v12;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = (v2 + v8) & k11;
        const T v10 = v9 | k12;
        const T v14 = (v10 ^ k16) & k17;
        wf_put<T, 0>(g, line, v0, v10);
        wf_put<T, 0>(g, line, v13, v14);
        (void)e;
    });
}

/* cdf34274063f */
WF_NATIVE(wf_native_148) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T v1 = wf_drawn<T>(g, k0, k1);
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v0 = line;
        const T v2 = v0 ^ v1;
        const T v3 = v2 & k2;
        wf_put<T, 1>(g, line, v3, k3);
        (void)e;
    });
}

/* ce23fa0d8055 */
WF_NATIVE(wf_native_149) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v6 = wf_drawn<T>(g, k2, k3);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = e.line();
        const T v3 = v2 * k1;
        const T v4 = e.position();
        const T v5 = v3 + v4;
        const T v7 = v5 + v6;
        const T v8 = v7 & k4;
        const T v9 = v8 << (k5 & (8 * sizeof(T) - 1));
        const T v10 = v9 + k6;
        const T v11 = v1 + v10;
        return v11;
    });
}

/* cffd408dd1c1 */
WF_NATIVE(wf_native_150) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v2 = k2 - v1;
    const T v3 = wf_looked_up<T>(g, k3, k4, v2);
    const T v5 = wf_looked_up<T>(g, k6, k7, v2);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v4 = (v0 & v3) & k5;
        const T v6 = (v4 + v5) & k8;
        return v6;
    });
}

/* d0519b62ca17 */
WF_NATIVE(wf_native_151) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v22 = wf_drawn<T>(g, k16, k17);
    const T v23 = (T)(v22 == k18);
    const T v24 = v23 ? k19 : k20;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v25 = v21 & v24;
        return v25;
    });
}

/* d355000b7e5d */
WF_NATIVE(wf_native_152) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 + k2;
    const T v2 = v1 - k3;
    const T v3 = wf_looked_up<T>(g, k4, k5, v2);
    wf_windowed(filling, places, base, image, lane, lanes, 0, v3);
}

/* d3e1f8ea039f */
WF_NATIVE(wf_native_153) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v2 = v1 + k2;
    const T v3 = wf_looked_up<T>(g, k3, k4, v2);
    const T v5 = wf_looked_up<T>(g, k6, k7, v2);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v4 = (v0 & v3) & k5;
        const T v6 = (v4 + v5) & k8;
        return v6;
    });
}

/* d488e9bf54eb */
WF_NATIVE(wf_native_154) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        return v0;
    });
}

/* d6cf33d0f02c */
WF_NATIVE(wf_native_155) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    const T v9 = (T)((S)v8 >> (k8 & (8 * sizeof(T) - 1)));
    const T v10 = v9 << (k9 & (8 * sizeof(T) - 1));
    const T v11 = v8 & k10;
    const T v12 = v10 + v11;
    const T v13 = k11 * k12;
    const T v14 = v12 + v13;
    const T v15 = wf_drawn<T>(g, k13, k14);
    const T v16 = (T)((S)v15 >> (k15 & (8 * sizeof(T) - 1)));
    const T v17 = v16 ^ k16;
    const T v18 = v17 & k17;
    const T v19 = k18 * k19;
    const T v20 = v12 + v19;
    const T v25 = v17 & k21;
    const T v28 = (T)((S)v0 >> (k23 & (8 * sizeof(T) - 1)));
    const T v29 = v28 << (k24 & (8 * sizeof(T) - 1));
    const T v30 = v0 & k25;
    const T v31 = v29 + v30;
    const T v32 = v31 + v13;
    const T v33 = v31 + v19;
    const T v40 = (T)((S)v3 >> (k28 & (8 * sizeof(T) - 1)));
    const T v41 = v40 << (k29 & (8 * sizeof(T) - 1));
    const T v42 = v3 & k30;
    const T v43 = v41 + v42;
    const T v44 = v43 + v13;
    const T v45 = v43 + v19;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v21 = e.beside(line, v20);
        const T v22 = e.beside(line, v14);
        const T v23 = v18 ? v21 : v22;
        const T v24 = v23 & k20;
        const T v26 = v25 ? v21 : v22;
        const T v27 = v26 & k22;
        const T v34 = e.beside(line, v33);
        const T v35 = e.beside(line, v32);
        const T v36 = v18 ? v34 : v35;
        const T v37 = v36 | k26;
        const T v38 = v25 ? v34 : v35;
        const T v39 = v38 | k27;
        wf_put<T, 0>(g, line, v14, v24);
        wf_put<T, 0>(g, line, v20, v27);
        wf_put<T, 0>(g, line, v32, v37);
        wf_put<T, 0>(g, line, v33, v39);
        wf_put<T, 0>(g, line, v44, v37);
        wf_put<T, 0>(g, line, v45, v39);
        (void)e;
    });
}

/* d7d0187e1127 */
WF_NATIVE(wf_native_156) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T k31 = wf_numbered<T>(g, 31);
    const T k32 = wf_numbered<T>(g, 32);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = (T)((S)v7 >> (k9 & (8 * sizeof(T) - 1)));
    const T v9 = v8 ^ k10;
    const T v10 = v9 & k11;
    const T v11 = k12 * k13;
    const T v12 = v4 + v11;
    const T v17 = wf_drawn<T>(g, k15, k16);
    const T v18 = v17 + k17;
    const T v19 = v18 + k18;
    const T v20 = (T)((S)v19 >> (k19 & (8 * sizeof(T) - 1)));
    const T v21 = v20 - k20;
    const T v22 = wf_looked_up<T>(g, k21, k22, v21);
    const T v25 = v9 & k24;
    const T v30 = wf_drawn<T>(g, k27, k28);
    const T v31 = v30 + k29;
    const T v32 = v0 ^ v31;
    const T v33 = (T)((S)v32 >> (k30 & (8 * sizeof(T) - 1)));
    const T v34 = v33 << (k31 & (8 * sizeof(T) - 1));
    const T v35 = v32 & k32;
    const T v36 = v34 + v35;
    const T v37 = v36 + v5;
    const T v38 = v36 + v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v13 = e.beside(line, v12);
        const T v14 = e.beside(line, v6);
        const T v15 = v10 ? v13 : v14;
        const T v16 = v15 & k14;
        const T v23 = v16 + v22;
        const T v24 = v23 | k23;
        const T v26 = v25 ? v13 : v14;
        const T v27 = v26 & k25;
        const T v28 = v27 + v22;
        const T v29 = v28 | k26;
        wf_put<T, 0>(g, line, v6, v24);
        wf_put<T, 0>(g, line, v12, v29);
        wf_put<T, 0>(g, line, v37, v24);
        wf_put<T, 0>(g, line, v38, v29);
        (void)e;
    });
}

/* d9c2e672d332 */
WF_NATIVE(wf_native_157) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.beside(e.line(), k0);
        const T v1 = v0 & k1;
        const T v2 = (v1 + k2) & k3;
        return v2;
    });
}

/* d9e853cf3c9e */
WF_NATIVE(wf_native_158) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v3 = wf_drawn<T>(g, k2, k3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = (T)((S)v0 >> (k0 & (8 * sizeof(T) - 1)));
        const T v2 = v1 * k1;
        const T v4 = v2 + v3;
        const T v5 = v0 & k4;
        const T v6 = v5 * k5;
        const T v7 = (T)((S)v4 >> (v6 & (8 * sizeof(T) - 1)));
        const T v8 = (v7) & k6;
        return v8;
    });
}

/* db0531e9b70c */
WF_NATIVE(wf_native_159) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T v4 = wf_drawn<T>(g, k1, k2);
    const T v6 = wf_drawn<T>(g, k3, k4);
    const T v7 = v6 * k5;
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = v1 + v2;
        const T v5 = v3 + v4;
        const T v8 = (T)((S)v5 >> (v7 & (8 * sizeof(T) - 1)));
        const T v9 = v8 & k6;
        return v9;
    });
}

/* dc0511b2f983 */
WF_NATIVE(wf_native_160) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v10 = wf_drawn<T>(g, k11, k12);
    const T v11 = v10 + k13;
    const T v12 = v0 ^ v11;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = v2 + v8;
        wf_put<T, 0>(g, line, v0, v9);
        wf_put<T, 0>(g, line, v12, v9);
        (void)e;
    });
}

/* dc08ba9dda99 */
WF_NATIVE(wf_native_161) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_looked_up<T>(g, k2, k3, v0);
    const T v2 = wf_drawn<T>(g, k4, k5);
    const T v3 = v2 - k6;
    const T v4 = v3 - k7;
    const T v5 = wf_looked_up<T>(g, k8, k9, v4);
    const T v6 = v0 ? v5 : k10;
    wf_windowed(filling, places, base, image, lane, lanes, v1, v6);
}

/* dc50d94c3c43 */
WF_NATIVE(wf_native_162) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 << (k3 & (8 * sizeof(T) - 1));
    const T v3 = v0 & k4;
    const T v4 = v2 + v3;
    const T v5 = k5 * k6;
    const T v6 = v4 + v5;
    const T v7 = wf_drawn<T>(g, k7, k8);
    const T v8 = v7 - k9;
    const T v9 = v8 - k10;
    const T v10 = (T)((S)v9 >> (k11 & (8 * sizeof(T) - 1)));
    const T v11 = v9 - v10;
    const T v12 = v11 - k12;
    const T v13 = wf_looked_up<T>(g, k13, k14, v12);
    const T v14 = k15 * k16;
    const T v15 = v4 + v14;
    const T v16 = wf_drawn<T>(g, k17, k18);
    const T v17 = v16 + k19;
    const T v18 = v0 ^ v17;
    const T v19 = (T)((S)v18 >> (k20 & (8 * sizeof(T) - 1)));
    const T v20 = v19 << (k21 & (8 * sizeof(T) - 1));
    const T v21 = v18 & k22;
    const T v22 = v20 + v21;
    const T v23 = v22 + v5;
    const T v24 = v22 + v14;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v6, v13);
        wf_put<T, 0>(g, line, v15, v13);
        wf_put<T, 0>(g, line, v23, v13);
        wf_put<T, 0>(g, line, v24, v13);
        (void)e;
    });
}

/* dcb779f63bad */
WF_NATIVE(wf_native_163) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = (T)(v22 == k17);
        const T v24 = v23 << (k18 & (8 * sizeof(T) - 1));
        const T v25 = v21 ^ v24;
        return v25;
    });
}

/* dccba298faa9 */
WF_NATIVE(wf_native_164) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v4 + k6;
    const T v6 = (T)((S)v5 >> (k7 & (8 * sizeof(T) - 1)));
    const T v7 = v6 - k8;
    const T v8 = wf_looked_up<T>(g, k9, k10, v7);
    const T v11 = wf_drawn<T>(g, k12, k13);
    const T v12 = v11 + k14;
    const T v13 = v0 ^ v12;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 & k2;
        const T v9 = v2 + v8;
        const T v10 = v9 | k11;
        const T v14 = v10 ^ k15;
        wf_put<T, 0>(g, line, v0, v10);
        wf_put<T, 0>(g, line, v13, v14);
        (void)e;
    });
}

/* dde67d03a053 */
WF_NATIVE(wf_native_165) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    wf_each<T, WF_MANY(1), 1>(g, [&](const wf_one<T, 1> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v24 = v22 | v23;
        const T v25 = v24 * k19;
        const T v26 = (v25 + k20) & k21;
        const T v27 = v26 & k22;
        return v27;
    });
}

/* dfb09eefa057 */
WF_NATIVE(wf_native_166) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v2 = wf_drawn<T>(g, k1, k2);
    const T v3 = v2 - k3;
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v4 = e.position();
        const T v5 = v4 + k4;
        const T v6 = wf_drawn<T>(g, v5, k5);
        const T v7 = v6 & k6;
        const T v8 = v3 - v7;
        const T v9 = (T)((S)v8 >> (k7 & (8 * sizeof(T) - 1)));
        const T v10 = (T)((S)v6 >> (k8 & (8 * sizeof(T) - 1)));
        const T v11 = v10 & k9;
        const T v12 = v9 + v11;
        const T v13 = v12 - k10;
        const T v14 = v13 - k11;
        const T v15 = wf_looked_up<T>(g, k12, k13, v14);
        const T v16 = (v1 + v15) & k14;
        return v16;
    });
}

/* e0aea59cfe59 */
WF_NATIVE(wf_native_167) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T v6 = wf_drawn<T>(g, k2, k3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = e.line();
        const T v3 = v2 * k1;
        const T v4 = e.position();
        const T v5 = v3 + v4;
        const T v7 = (v5 + v6) & k4;
        const T v8 = v7 & k5;
        const T v9 = v8 << (k6 & (8 * sizeof(T) - 1));
        const T v10 = v9 + k7;
        const T v11 = v1 + v10;
        return v11;
    });
}

/* e50231ab6748 */
WF_NATIVE(wf_native_168) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T k30 = wf_numbered<T>(g, 30);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = v0 ^ v2;
    const T v4 = v0 ^ v3;
    const T v5 = (T)(v4 == k5);
    const T v6 = v4 ^ k6;
    const T v7 = v5 ? k7 : v6;
    const T v8 = v0 ^ v7;
    const T v9 = (T)((S)v8 >> (k8 & (8 * sizeof(T) - 1)));
    const T v10 = v9 << (k9 & (8 * sizeof(T) - 1));
    const T v11 = v8 & k10;
    const T v12 = v10 + v11;
    const T v13 = k11 * k12;
    const T v14 = v12 + v13;
    const T v15 = wf_drawn<T>(g, k13, k14);
    const T v16 = (T)((S)v15 >> (k15 & (8 * sizeof(T) - 1)));
    const T v17 = v16 ^ k16;
    const T v18 = v17 & k17;
    const T v19 = k18 * k19;
    const T v20 = v12 + v19;
    const T v25 = v17 & k21;
    const T v28 = (T)((S)v0 >> (k23 & (8 * sizeof(T) - 1)));
    const T v29 = v28 << (k24 & (8 * sizeof(T) - 1));
    const T v30 = v0 & k25;
    const T v31 = v29 + v30;
    const T v32 = v31 + v13;
    const T v33 = v31 + v19;
    const T v40 = (T)((S)v3 >> (k28 & (8 * sizeof(T) - 1)));
    const T v41 = v40 << (k29 & (8 * sizeof(T) - 1));
    const T v42 = v3 & k30;
    const T v43 = v41 + v42;
    const T v44 = v43 + v13;
    const T v45 = v43 + v19;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v21 = e.beside(line, v20);
        const T v22 = e.beside(line, v14);
        const T v23 = v18 ? v21 : v22;
        const T v24 = v23 & k20;
        const T v26 = v25 ? v21 : v22;
        const T v27 = v26 & k22;
        const T v34 = e.beside(line, v33);
        const T v35 = e.beside(line, v32);
        const T v36 = v18 ? v34 : v35;
        const T v37 = v36 | k26;
        const T v38 = v25 ? v34 : v35;
        const T v39 = v38 | k27;
        wf_put<T, 1>(g, line, v14, v24);
        wf_put<T, 1>(g, line, v20, v27);
        wf_put<T, 1>(g, line, v32, v37);
        wf_put<T, 1>(g, line, v33, v39);
        wf_put<T, 1>(g, line, v44, v37);
        wf_put<T, 1>(g, line, v45, v39);
        (void)e;
    });
}

/* e729338f69b3 */
WF_NATIVE(wf_native_169) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 - k4;
    const T v3 = v2 - k5;
    const T v4 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
    const T v5 = v3 - v4;
    const T v6 = v5 - k7;
    const T v7 = wf_looked_up<T>(g, k8, k9, v6);
    const T v8 = wf_drawn<T>(g, k10, k11);
    const T v9 = v8 + k12;
    const T v10 = v0 ^ v9;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        wf_put<T, 0>(g, line, v0, v7);
        wf_put<T, 0>(g, line, v10, v7);
        (void)e;
    });
}

/* e7a07efbeeae */
WF_NATIVE(wf_native_170) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = v0 + k2;
    const T v2 = v1 - k3;
    const T v3 = wf_looked_up<T>(g, k4, k5, v2);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        return v3;
    });
}

/* e7d2aee5b1a9 */
WF_NATIVE(wf_native_171) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = e.beside(line, k0);
        const T v1 = (T)((S)v0 >> (k1 & (8 * sizeof(T) - 1)));
        const T v2 = v1 & k2;
        const T v3 = v0 & k3;
        const T v4 = k4 << (v3 & (8 * sizeof(T) - 1));
        const T v5 = e.beside(line, k5);
        const T v6 = (T)((S)v5 >> (k6 & (8 * sizeof(T) - 1)));
        const T v7 = v6 & k7;
        const T v8 = v5 & k8;
        const T v9 = k9 << (v8 & (8 * sizeof(T) - 1));
        const T v10 = (T)(v2 == v7);
        const T v11 = v4 * v10;
        const T v12 = v9 | v11;
        wf_put<T, 0>(g, line, v2, v4);
        wf_put<T, 0>(g, line, v7, v12);
        (void)e;
    });
}

/* e98df69d97c6 */
WF_NATIVE(wf_native_172) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.position();
        const T v1 = v0 & k0;
        const T v2 = (T)(v1 == k1);
        const T v3 = e.noise();
        const T v4 = v3 & k2;
        const T v5 = v2 ? v4 : k3;
        return v5;
    });
}

/* ea495a41d85e */
WF_NATIVE(wf_native_173) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v2 = wf_looked_up<T>(g, k2, k3, v1);
    const T v4 = wf_drawn<T>(g, k5, k6);
    const T v5 = v4 - k7;
    const T v6 = v5 - k8;
    const T v7 = wf_looked_up<T>(g, k9, k10, v6);
    const T v8 = v1 ? v7 : k11;
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v3 = (v0 & v2) & k4;
        const T v9 = (v3 + v8) & k12;
        return v9;
    });
}

/* eb73a318d817 */
WF_NATIVE(wf_native_174) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_drawn<T>(g, k2, k3);
    const T v2 = v1 + k4;
    const T v3 = k5 - v2;
    const T v4 = v3 - k6;
    const T v5 = wf_looked_up<T>(g, k7, k8, v4);
    const T v6 = wf_drawn<T>(g, k9, k10);
    const T v7 = v6 + k11;
    const T v8 = v0 ^ v7;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v9 = e.beside(line, k12);
        const T v10 = v9 & k13;
        const T v11 = line;
        const T v12 = v11 & k14;
        const T v13 = v12 + k15;
        const T v14 = v13 - k16;
        const T v15 = wf_looked_up<T>(g, k17, k18, v14);
        const T v16 = (v10 | v15) & k19;
        wf_put<T, 0>(g, line, v0, v5);
        wf_put<T, 0>(g, line, v8, v16);
        (void)e;
    });
}

/* eeb68437ea12 */
WF_NATIVE(wf_native_175) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = wf_looked_up<T>(g, k2, k3, v0);
    const T v2 = wf_drawn<T>(g, k4, k5);
    const T v3 = v2 + k6;
    const T v4 = wf_drawn<T>(g, k7, k8);
    const T v5 = v4 + k9;
    const T v6 = v3 - v5;
    const T v7 = v6 - k10;
    const T v8 = v7 - k11;
    const T v9 = wf_looked_up<T>(g, k12, k13, v8);
    const T v10 = v0 ? v9 : k14;
    wf_windowed(filling, places, base, image, lane, lanes, v1, v10);
}

/* f087082bbe46 */
WF_NATIVE(wf_native_176) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T v8 = wf_drawn<T>(g, k4, k5);
    const T v10 = wf_drawn<T>(g, k6, k7);
    const T v11 = v10 * k8;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.line();
        const T v1 = v0 * k0;
        const T v2 = e.position();
        const T v3 = (T)((S)v2 >> (k1 & (8 * sizeof(T) - 1)));
        const T v4 = v3 << (k2 & (8 * sizeof(T) - 1));
        const T v5 = v2 & k3;
        const T v6 = v4 + v5;
        const T v7 = v1 + v6;
        const T v9 = v7 + v8;
        const T v12 = (T)((S)v9 >> (v11 & (8 * sizeof(T) - 1)));
        const T v13 = v12 & k9;
        return v13;
    });
}

/* f0f44408a0f8 */
WF_NATIVE(wf_native_177) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v3 = wf_drawn<T>(g, k3, k4);
    const T v4 = v3 + k5;
    const T v5 = v0 ^ v4;
    wf_each_line<T, 1>(g, [&](const wf_one<T, 1> &e, T line) {
        const T v1 = e.beside(line, v0);
        const T v2 = v1 | k2;
        wf_put<T, 1>(g, line, v0, v2);
        wf_put<T, 1>(g, line, v5, v2);
        (void)e;
    });
}

/* f1c5bf3a505f */
WF_NATIVE(wf_native_178) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T k18 = wf_numbered<T>(g, 18);
    const T k19 = wf_numbered<T>(g, 19);
    const T k20 = wf_numbered<T>(g, 20);
    const T k21 = wf_numbered<T>(g, 21);
    const T k22 = wf_numbered<T>(g, 22);
    const T k23 = wf_numbered<T>(g, 23);
    const T k24 = wf_numbered<T>(g, 24);
    const T k25 = wf_numbered<T>(g, 25);
    const T k26 = wf_numbered<T>(g, 26);
    const T k27 = wf_numbered<T>(g, 27);
    const T k28 = wf_numbered<T>(g, 28);
    const T k29 = wf_numbered<T>(g, 29);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    const T v23 = wf_drawn<T>(g, k17, k18);
    const T v24 = v23 + k19;
    const T v25 = wf_drawn<T>(g, k20, k21);
    const T v26 = v25 + k22;
    const T v27 = v24 - v26;
    const T v28 = v27 - k23;
    const T v29 = v28 + k24;
    const T v30 = (T)((S)v29 >> (k25 & (8 * sizeof(T) - 1)));
    const T v31 = v30 - k26;
    const T v32 = wf_looked_up<T>(g, k27, k28, v31);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v33 = (v22 + v32) & k29;
        return v33;
    });
}

/* fa16d3b8bf7e */
WF_NATIVE(wf_native_179) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = k17 << (v22 & (8 * sizeof(T) - 1));
        return v23;
    });
}

/* fb985c24e3da */
WF_NATIVE(wf_native_180) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T k12 = wf_numbered<T>(g, 12);
    const T k13 = wf_numbered<T>(g, 13);
    const T k14 = wf_numbered<T>(g, 14);
    const T k15 = wf_numbered<T>(g, 15);
    const T k16 = wf_numbered<T>(g, 16);
    const T k17 = wf_numbered<T>(g, 17);
    const T v0 = wf_drawn<T>(g, k0, k1);
    const T v1 = (T)((S)v0 >> (k2 & (8 * sizeof(T) - 1)));
    const T v2 = v1 ^ k3;
    const T v15 = k12 * k13;
    const T v18 = k14 * k15;
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v3 = e.position();
        const T v4 = (T)((S)v3 >> (k4 & (8 * sizeof(T) - 1)));
        const T v5 = v4 & k5;
        const T v6 = v2 & v5;
        const T v7 = (T)((S)v3 >> (k6 & (8 * sizeof(T) - 1)));
        const T v8 = v7 << (k7 & (8 * sizeof(T) - 1));
        const T v9 = v3 & k8;
        const T v10 = v8 + v9;
        const T v11 = (T)((S)v10 >> (k9 & (8 * sizeof(T) - 1)));
        const T v12 = v11 << (k10 & (8 * sizeof(T) - 1));
        const T v13 = v10 & k11;
        const T v14 = v12 + v13;
        const T v16 = v14 + v15;
        const T v17 = e.beside(e.line(), v16);
        const T v19 = v14 + v18;
        const T v20 = e.beside(e.line(), v19);
        const T v21 = v6 ? v17 : v20;
        const T v22 = v21 & k16;
        const T v23 = v22 + k17;
        return v23;
    });
}

/* fbfd4479642f */
WF_NATIVE(wf_native_181) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        return v1;
    });
}

/* fd9a5d96ee8d */
WF_NATIVE(wf_native_182) {
    WF_GIVEN;
    typedef uint64_t T;
    typedef int64_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    wf_each<T, WF_MANY(1), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = e.line();
        const T v2 = v1 & k0;
        const T v3 = wf_looked_up<T>(g, k1, k2, v2);
        const T v4 = (v0 & v3) & k3;
        const T v5 = wf_looked_up<T>(g, k4, k5, v2);
        const T v6 = (v4 + v5) & k6;
        return v6;
    });
}

/* fea6d8748d6a */
WF_NATIVE(wf_native_183) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    wf_each<T, WF_MANY(2), 0>(g, [&](const wf_one<T, 0> &e) {
        const T v0 = e.noise();
        const T v1 = v0 & k0;
        const T v2 = k1 << (v1 & (8 * sizeof(T) - 1));
        return v2;
    });
}

/* ff188d83571b */
WF_NATIVE(wf_native_184) {
    WF_GIVEN;
    typedef uint32_t T;
    typedef int32_t S;
    (void)sizeof(S);
    const T k0 = wf_numbered<T>(g, 0);
    const T k1 = wf_numbered<T>(g, 1);
    const T k2 = wf_numbered<T>(g, 2);
    const T k3 = wf_numbered<T>(g, 3);
    const T k4 = wf_numbered<T>(g, 4);
    const T k5 = wf_numbered<T>(g, 5);
    const T k6 = wf_numbered<T>(g, 6);
    const T k7 = wf_numbered<T>(g, 7);
    const T k8 = wf_numbered<T>(g, 8);
    const T k9 = wf_numbered<T>(g, 9);
    const T k10 = wf_numbered<T>(g, 10);
    const T k11 = wf_numbered<T>(g, 11);
    const T v1 = wf_drawn<T>(g, k0, k1);
    const T v8 = k6 * k7;
    const T v10 = k8 * k9;
    wf_each_line<T, 0>(g, [&](const wf_one<T, 0> &e, T line) {
        const T v0 = line;
        const T v2 = v0 ^ v1;
        const T v3 = v2 & k2;
        const T v4 = (T)((S)v3 >> (k3 & (8 * sizeof(T) - 1)));
        const T v5 = v4 << (k4 & (8 * sizeof(T) - 1));
        const T v6 = v3 & k5;
        const T v7 = v5 + v6;
        const T v9 = v7 + v8;
        const T v11 = v7 + v10;
        wf_put<T, 0>(g, line, v9, k10);
        wf_put<T, 0>(g, line, v11, k11);
        (void)e;
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
    case 51: wf_native_51(WF_PASSED); break;
    case 52: wf_native_52(WF_PASSED); break;
    case 53: wf_native_53(WF_PASSED); break;
    case 54: wf_native_54(WF_PASSED); break;
    case 55: wf_native_55(WF_PASSED); break;
    case 56: wf_native_56(WF_PASSED); break;
    case 57: wf_native_57(WF_PASSED); break;
    case 58: wf_native_58(WF_PASSED); break;
    case 59: wf_native_59(WF_PASSED); break;
    case 60: wf_native_60(WF_PASSED); break;
    case 61: wf_native_61(WF_PASSED); break;
    case 62: wf_native_62(WF_PASSED); break;
    case 63: wf_native_63(WF_PASSED); break;
    case 64: wf_native_64(WF_PASSED); break;
    case 65: wf_native_65(WF_PASSED); break;
    case 66: wf_native_66(WF_PASSED); break;
    case 67: wf_native_67(WF_PASSED); break;
    case 68: wf_native_68(WF_PASSED); break;
    case 69: wf_native_69(WF_PASSED); break;
    case 70: wf_native_70(WF_PASSED); break;
    case 71: wf_native_71(WF_PASSED); break;
    case 72: wf_native_72(WF_PASSED); break;
    case 73: wf_native_73(WF_PASSED); break;
    case 74: wf_native_74(WF_PASSED); break;
    case 75: wf_native_75(WF_PASSED); break;
    case 76: wf_native_76(WF_PASSED); break;
    case 77: wf_native_77(WF_PASSED); break;
    case 78: wf_native_78(WF_PASSED); break;
    case 79: wf_native_79(WF_PASSED); break;
    case 80: wf_native_80(WF_PASSED); break;
    case 81: wf_native_81(WF_PASSED); break;
    case 82: wf_native_82(WF_PASSED); break;
    case 83: wf_native_83(WF_PASSED); break;
    case 84: wf_native_84(WF_PASSED); break;
    case 85: wf_native_85(WF_PASSED); break;
    case 86: wf_native_86(WF_PASSED); break;
    case 87: wf_native_87(WF_PASSED); break;
    case 88: wf_native_88(WF_PASSED); break;
    case 89: wf_native_89(WF_PASSED); break;
    case 90: wf_native_90(WF_PASSED); break;
    case 91: wf_native_91(WF_PASSED); break;
    case 92: wf_native_92(WF_PASSED); break;
    case 93: wf_native_93(WF_PASSED); break;
    case 94: wf_native_94(WF_PASSED); break;
    case 95: wf_native_95(WF_PASSED); break;
    case 96: wf_native_96(WF_PASSED); break;
    case 97: wf_native_97(WF_PASSED); break;
    case 98: wf_native_98(WF_PASSED); break;
    case 99: wf_native_99(WF_PASSED); break;
    case 100: wf_native_100(WF_PASSED); break;
    case 101: wf_native_101(WF_PASSED); break;
    case 102: wf_native_102(WF_PASSED); break;
    case 103: wf_native_103(WF_PASSED); break;
    case 104: wf_native_104(WF_PASSED); break;
    case 105: wf_native_105(WF_PASSED); break;
    case 106: wf_native_106(WF_PASSED); break;
    case 107: wf_native_107(WF_PASSED); break;
    case 108: wf_native_108(WF_PASSED); break;
    case 109: wf_native_109(WF_PASSED); break;
    case 110: wf_native_110(WF_PASSED); break;
    case 111: wf_native_111(WF_PASSED); break;
    case 112: wf_native_112(WF_PASSED); break;
    case 113: wf_native_113(WF_PASSED); break;
    case 114: wf_native_114(WF_PASSED); break;
    case 115: wf_native_115(WF_PASSED); break;
    case 116: wf_native_116(WF_PASSED); break;
    case 117: wf_native_117(WF_PASSED); break;
    case 118: wf_native_118(WF_PASSED); break;
    case 119: wf_native_119(WF_PASSED); break;
    case 120: wf_native_120(WF_PASSED); break;
    case 121: wf_native_121(WF_PASSED); break;
    case 122: wf_native_122(WF_PASSED); break;
    case 123: wf_native_123(WF_PASSED); break;
    case 124: wf_native_124(WF_PASSED); break;
    case 125: wf_native_125(WF_PASSED); break;
    case 126: wf_native_126(WF_PASSED); break;
    case 127: wf_native_127(WF_PASSED); break;
    case 128: wf_native_128(WF_PASSED); break;
    case 129: wf_native_129(WF_PASSED); break;
    case 130: wf_native_130(WF_PASSED); break;
    case 131: wf_native_131(WF_PASSED); break;
    case 132: wf_native_132(WF_PASSED); break;
    case 133: wf_native_133(WF_PASSED); break;
    case 134: wf_native_134(WF_PASSED); break;
    case 135: wf_native_135(WF_PASSED); break;
    case 136: wf_native_136(WF_PASSED); break;
    case 137: wf_native_137(WF_PASSED); break;
    case 138: wf_native_138(WF_PASSED); break;
    case 139: wf_native_139(WF_PASSED); break;
    case 140: wf_native_140(WF_PASSED); break;
    case 141: wf_native_141(WF_PASSED); break;
    case 142: wf_native_142(WF_PASSED); break;
    case 143: wf_native_143(WF_PASSED); break;
    case 144: wf_native_144(WF_PASSED); break;
    case 145: wf_native_145(WF_PASSED); break;
    case 146: wf_native_146(WF_PASSED); break;
    case 147: wf_native_147(WF_PASSED); break;
    case 148: wf_native_148(WF_PASSED); break;
    case 149: wf_native_149(WF_PASSED); break;
    case 150: wf_native_150(WF_PASSED); break;
    case 151: wf_native_151(WF_PASSED); break;
    case 152: wf_native_152(WF_PASSED); break;
    case 153: wf_native_153(WF_PASSED); break;
    case 154: wf_native_154(WF_PASSED); break;
    case 155: wf_native_155(WF_PASSED); break;
    case 156: wf_native_156(WF_PASSED); break;
    case 157: wf_native_157(WF_PASSED); break;
    case 158: wf_native_158(WF_PASSED); break;
    case 159: wf_native_159(WF_PASSED); break;
    case 160: wf_native_160(WF_PASSED); break;
    case 161: wf_native_161(WF_PASSED); break;
    case 162: wf_native_162(WF_PASSED); break;
    case 163: wf_native_163(WF_PASSED); break;
    case 164: wf_native_164(WF_PASSED); break;
    case 165: wf_native_165(WF_PASSED); break;
    case 166: wf_native_166(WF_PASSED); break;
    case 167: wf_native_167(WF_PASSED); break;
    case 168: wf_native_168(WF_PASSED); break;
    case 169: wf_native_169(WF_PASSED); break;
    case 170: wf_native_170(WF_PASSED); break;
    case 171: wf_native_171(WF_PASSED); break;
    case 172: wf_native_172(WF_PASSED); break;
    case 173: wf_native_173(WF_PASSED); break;
    case 174: wf_native_174(WF_PASSED); break;
    case 175: wf_native_175(WF_PASSED); break;
    case 176: wf_native_176(WF_PASSED); break;
    case 177: wf_native_177(WF_PASSED); break;
    case 178: wf_native_178(WF_PASSED); break;
    case 179: wf_native_179(WF_PASSED); break;
    case 180: wf_native_180(WF_PASSED); break;
    case 181: wf_native_181(WF_PASSED); break;
    case 182: wf_native_182(WF_PASSED); break;
    case 183: wf_native_183(WF_PASSED); break;
    case 184: wf_native_184(WF_PASSED); break;
    }
}
